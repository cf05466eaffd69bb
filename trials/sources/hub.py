"""Datasets of the hub, through its own libraries, at a commit, and its models (`hub_models`).

Datasets are kept as our own JSON lines, so that a digest depends on the rows and not on a library's version.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trials.errors import DataError, unknown
from trials.sources.cache import Fetched, Progress, cache_root, complete, finish, is_plain, locked, no_progress, writing
from trials.sources.hub_client import TIMEOUT_S, Repo, bar_class, calling, card_licence, explain
from trials.sources.hub_models import fetch_model as fetch_model
from trials.sources.rows import write_rows

_EXPORTED = re.compile(r"([^/]+)/([^/]+)/\d{4}\.parquet")  # of the hub's own conversion: configuration/split/number


def fetch_dataset(
    repo: str, config: str | None, revision: str, *, offline: bool, progress: Progress = no_progress
) -> Fetched:
    """A dataset's splits as JSON lines, from the cache or, the first time, from the hub.

    A commit that is complete in the cache asks nothing of the network. Another revision is looked up each time, unless
    `offline`, which takes the commit that it was when it was last fetched.

    Args:
        repo: `owner/name`.
        config: One of its configurations; None for the only or the default one.
        revision: Commit, tag, branch or `refs/convert/parquet`.
        offline: Use no network.
        progress: Told of every piece that is downloaded.

    Raises:
        DataError: not found, gated, a loading script, an unknown configuration, no connection, absent and `offline`,
            or columns that are neither text nor numbers.
    """
    where = Repo("datasets", repo, revision)
    _check_config(where, config)
    known = revision if where.is_pinned else where.remembered()
    if known and (offline or where.is_pinned) and (found := complete(_dataset_folder(where, config, known))):
        return found
    if offline:
        raise DataError(
            f"{where} ({config or 'default'}, {revision}) is not on this machine and --offline forbids the download; "
            f"run `permafrost data fetch hub:{_name(repo, config)}@{revision}` first."
        )
    return _online(where, config, progress)


def _check_config(repo: Repo, config: str | None) -> None:
    if config is not None and (not config.strip(".") or "/" in config or "\\" in config):
        raise DataError(f"{repo}: {config!r} is not the name of a configuration.")


def _dataset_folder(repo: Repo, config: str | None, commit: str) -> Path:
    return cache_root() / "hub" / "datasets" / repo.folder_name / (config or "default") / commit


def _name(repo: str, config: str | None) -> str:
    return f"{repo}/{config}" if config else repo


def _online(repo: Repo, config: str | None, progress: Progress) -> Fetched:
    with calling(repo):
        from huggingface_hub import HfApi

        info = HfApi().dataset_info(repo.name, revision=repo.revision, timeout=TIMEOUT_S)
        if info.gated:
            HfApi().auth_check(repo.name, repo_type="dataset")  # `datasets` would lose the reason on its way
    assert info.sha is not None
    folder = _dataset_folder(repo, config, info.sha)
    with locked(folder):
        found = complete(folder) or _fetch(repo, config, info, folder, progress)
    repo.remember(info.sha)
    return found


def _fetch(repo: Repo, config: str | None, info: Any, folder: Path, progress: Progress) -> Fetched:
    files = [sibling.rfilename for sibling in info.siblings or ()]
    _refuse_script(repo, files)
    with writing(folder), TemporaryDirectory(dir=folder, prefix="building-") as scratch:
        splits = _load(repo, _selection(repo, config, files), info.sha, scratch, progress)
        hidden = []
        for split, rows in splits.items():
            if not is_plain(split):
                raise DataError(f"{repo}: {split!r} is no name of a split. Take another revision of it.")
            path = folder / f"{split}.jsonl"
            try:
                labelled = write_rows(rows, rows.features, path)
            except DataError as error:
                raise DataError(f"{repo}, split {split}: {error}") from error
            if not labelled:
                path.unlink()
                hidden.append(split)
    name = _name(repo.name, config)
    return finish(
        folder,
        name=name,
        kind="hub",
        source=f"hub:{name}@{info.sha}",
        licence=card_licence(info.card_data),
        files=[f"{split}.jsonl" for split in splits if split not in hidden],
        hidden=hidden,
    )


def _refuse_script(repo: Repo, files: Collection[str]) -> None:
    script = f"{repo.name.partition('/')[2]}.py"
    if script in files:
        raise DataError(
            f"{repo} at {repo.revision!r} is a program ({script}), which `datasets` no longer runs. "
            "Name the hub's own conversion of it: revision refs/convert/parquet."
        )


def _selection(repo: Repo, config: str | None, files: Collection[str]) -> dict[str, str]:
    """How `datasets` is told the configuration: by name, or by folder on the hub's branch of converted files.

    That branch has no card, and without one the files of all configurations would be read as one corpus.

    Raises:
        DataError: that branch has no such configuration, several and none is named, or only a piece of a split.
    """
    exported = [match for file in files if (match := _EXPORTED.fullmatch(file))]
    if not exported or "README.md" in files:
        return {"name": config} if config else {}
    configs = sorted({match[1] for match in exported})
    if config is None and len(configs) > 1:
        raise DataError(f"{repo} has several configurations; name one of {', '.join(configs)}.")
    config = config or configs[0]
    if config not in configs:
        raise DataError(f"{repo}: configuration: {unknown(config, configs)}")
    if any(match[1] == config and match[2].startswith("partial-") for match in exported):
        raise DataError(f"{repo}: the hub converted only a part of {config!r}. Take another source of it.")
    return {"data_dir": config}


def _load(repo: Repo, selection: dict[str, str], commit: str, scratch: str, progress: Progress) -> dict[str, Any]:
    """The splits; what `datasets.load_dataset` does, with our progress in between.

    `hf://` and an empty cache keep it from taking a folder of that name, or an older version that it once loaded.
    """
    datasets = importlib.import_module("datasets")  # it has no types
    with calling(repo):
        try:
            builder = datasets.load_dataset_builder(
                f"hf://datasets/{repo.name}", revision=commit, cache_dir=scratch, **selection
            )
            _download(repo, builder.config.data_files or {}, commit, progress)
            builder.download_and_prepare()
            return dict(builder.as_dataset())
        except OSError:
            raise  # for `calling`; some of them are ValueErrors as well
        except ValueError as error:
            raise DataError(_about_config(error, repo, selection)) from error
        except datasets.exceptions.DatasetsError as error:
            raise DataError(explain(error.__cause__ or error, repo)) from error


def _about_config(error: ValueError, repo: Repo, selection: dict[str, str]) -> str:
    """`datasets` lists the configurations at the end of its message, as Python writes a list."""
    listed = re.search(r"configs?: (\[.*?\])|Available: (\[.*?\])", str(error))
    if not listed:
        return explain(error, repo)
    known = [first or second for first, second in re.findall(r"'([^']*)'|\"([^\"]*)\"", listed[1] or listed[2])]
    if "name" not in selection:
        return f"{repo} has several configurations; name one of {', '.join(sorted(known))}."
    return f"{repo}: configuration: {unknown(selection['name'], known)}"


def _download(repo: Repo, data_files: dict[str, list[str]], commit: str, progress: Progress) -> None:
    """Bring the files into the hub's cache, where `datasets` then finds them."""
    from huggingface_hub import hf_hub_download

    start = f"hf://datasets/{repo.name}@{commit}/"
    for url in dict.fromkeys(url for files in data_files.values() for url in files):
        if url.startswith(start):
            file = url.removeprefix(start)
            hf_hub_download(repo.name, file, repo_type="dataset", revision=commit, tqdm_class=bar_class(file, progress))
