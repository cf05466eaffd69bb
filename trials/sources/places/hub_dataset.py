"""Datasets of the model hub at a commit, through the hub's own libraries and cached as JSON lines (`hub`)."""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trials.datasets.layout import FORMATS
from trials.errors import DataError, unknown
from trials.sources.cache import (
    FetchedCorpus,
    Progress,
    cache_root,
    forbidden,
    is_plain,
    locked_folder,
    no_progress,
    whole_corpus,
    why_not_here,
    write_manifest,
    writing,
)
from trials.sources.hub_client import (
    MAIN,
    TIMEOUT_S,
    Repo,
    bar_class,
    calling,
    card_licence,
    explain,
    is_commit,
    is_repo_name,
    near_repo,
)
from trials.sources.hub_rows import write_rows
from trials.sources.places.corpus_draft import CORPUS_SOURCES, DataDraft, Located, locate_splits, name_and_version
from trials.sources.source import FileSource, Keys

_EXPORTED = re.compile(r"([^/]+)/([^/]+)/\d{4}\.parquet")  # of the hub's own conversion: configuration/split/number


def fetch_dataset(
    repo: str, config: str | None, revision: str | None, *, offline: bool, progress: Progress = no_progress
) -> FetchedCorpus:
    """A dataset's splits as JSON lines, from the cache or else from the hub.

    A commit that is complete in the cache needs no network. Another revision is looked up each time; where downloads
    are forbidden it means the commit that it was when it was last fetched.

    Args:
        repo: `owner/name`, or the name alone of the oldest ones; of those `name/config` is understood as well.
        config: One of its configurations; None for the only or the default one.
        revision: Commit, tag, branch or `refs/convert/parquet`; None for the newest commit.

    Raises:
        DataError: not found, gated, a loading script, an unknown configuration, no connection, absent where downloads
            are forbidden, or columns that are neither text nor numbers.
    """
    readings = _readings(repo, config, MAIN if revision is None else revision)
    barred = forbidden(offline=offline, datasets=True)
    for where, chosen in readings:
        if (barred or where.is_pinned) and (corpus := _cached(where, chosen)):
            return corpus
    where, chosen = readings[0]
    if barred:
        at = where if where.is_pinned else where.remembered()
        folder = None if at is None else _dataset_folder(at, chosen)
        raise DataError(
            f"{where} ({chosen or 'default'}, {where.revision}) {why_not_here(folder)} and {barred} forbids the "
            f"download; run `permafrost data fetch hub:{_name(repo, config)}@{where.revision}` first."
            f"{near_repo(where)}"
        )
    try:
        return _online(where, chosen, progress)
    except DataError as error:
        from huggingface_hub.errors import RepositoryNotFoundError

        if len(readings) == 1 or not isinstance(error.__cause__, RepositoryNotFoundError):
            raise
        try:
            return _online(*readings[1], progress)
        except DataError as second:
            raise (error if isinstance(second.__cause__, RepositoryNotFoundError) else second) from None


def _readings(repo: str, config: str | None, revision: str) -> list[tuple[Repo, str | None]]:
    """The repositories and configurations that a name may mean: `glue/sst2` is one of an owner, or one of `glue`."""
    where = Repo("datasets", repo, revision)
    if config is not None and not is_plain(config):
        raise DataError(f"{where}: {config!r} is not the name of a configuration.")
    first, _, second = repo.partition("/")
    return [(where, config), *([(Repo("datasets", first, revision), second)] if second and config is None else [])]


def _cached(repo: Repo, config: str | None) -> FetchedCorpus | None:
    """A dataset in the cache; of `main` the newest that is there, if nothing says which commit it was."""
    at = repo if repo.is_pinned else repo.remembered()
    if at is not None and (corpus := whole_corpus(_dataset_folder(at, config))):
        return corpus
    owner = "" if "/" in repo.name else "*--"
    pattern = f"{owner}{repo.folder_name}/{config or 'default'}/{repo.revision if repo.is_pinned else '*'}"
    if not (repo.is_pinned or repo.revision == MAIN):
        return None
    there = [*(cache_root() / "hub" / "datasets").glob(pattern)]
    newest = sorted(there, key=lambda folder: folder.stat().st_mtime, reverse=True)
    return next(filter(None, map(whole_corpus, newest)), None)


def _dataset_folder(at: Repo, config: str | None) -> Path:
    return cache_root() / "hub" / "datasets" / at.folder_name / (config or "default") / at.revision


def _name(repo: str, config: str | None) -> str:
    return f"{repo}/{config}" if config else repo


def _online(repo: Repo, config: str | None, progress: Progress) -> FetchedCorpus:
    with calling(repo):
        from huggingface_hub import HfApi

        info = HfApi().dataset_info(repo.name, revision=repo.revision, timeout=TIMEOUT_S)
        if info.gated:
            HfApi().auth_check(repo.name, repo_type="dataset")  # `datasets` would lose the reason on its way
    at = Repo(repo.kind, info.id, str(info.sha))
    folder = _dataset_folder(at, config)
    with locked_folder(folder):
        corpus = whole_corpus(folder) or _fetch(replace(repo, name=at.name), config, info, folder, progress)
    repo.remember(at)
    return corpus


def _fetch(repo: Repo, config: str | None, info: Any, folder: Path, progress: Progress) -> FetchedCorpus:
    files = [sibling.rfilename for sibling in info.siblings or ()]
    if (script := f"{repo.name.partition('/')[2]}.py") in files:
        raise DataError(
            f"{repo} at {repo.revision!r} is a program ({script}), which `datasets` no longer runs. "
            "Name the hub's own conversion of it: revision refs/convert/parquet."
        )
    with writing(folder), TemporaryDirectory(dir=folder, prefix="building-") as scratch:
        splits = _load(repo, _selection(repo, config, files), info.sha, scratch, progress)
        hidden = []
        for split, rows in splits.items():
            if not is_plain(split):
                raise DataError(f"{repo}: {split!r} is not a valid split name. Use another revision.")
            path = folder / f"{split}.jsonl"
            try:
                labelled = write_rows(rows, rows.features, path)
            except DataError as error:
                raise DataError(f"{repo}, split {split}: {error}") from error
            if not labelled:
                path.unlink()
                hidden.append(split)
    name = _name(repo.name, config)
    return write_manifest(
        folder,
        name=name,
        kind="hub",
        source=f"hub:{name}@{info.sha}",
        licence=card_licence(info.card_data),
        files=[f"{split}.jsonl" for split in splits if split not in hidden],
        hidden=hidden,
    )


def _selection(repo: Repo, config: str | None, files: Collection[str]) -> dict[str, str]:
    """The arguments that select a configuration: its name, or its folder on the hub's branch of converted files.

    That branch has no dataset card, without which `datasets` reads the files of all configurations as one corpus.

    Raises:
        DataError: that branch has no such configuration, has several and none is named, or has only part of a split.
    """
    exported = [match for file in files if (match := _EXPORTED.fullmatch(file))]
    if not exported or "README.md" in files:
        return {"name": config} if config else {}
    configs = sorted({match[1] for match in exported})
    if config is None and len(configs) > 1:
        raise DataError(_several(repo, configs))
    config = config or configs[0]
    if config not in configs:
        raise DataError(f"{repo}: configuration: {unknown(config, configs)}")
    if any(match[1] == config and match[2].startswith("partial-") for match in exported):
        raise DataError(f"{repo}: the hub converted only a part of {config!r}. Use another source.")
    return {"data_dir": config}


def _load(repo: Repo, selection: dict[str, str], commit: str, scratch: str, progress: Progress) -> dict[str, Any]:
    """The splits as `datasets.load_dataset` returns them, with a download that reports its progress.

    `hf://` and an empty cache prevent it from loading a local folder of that name, or a version it has cached.
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
            raise  # for `calling`; some are ValueErrors as well
        except ValueError as error:
            raise DataError(_about_config(error, repo, selection)) from error
        except datasets.exceptions.DatasetsError as error:
            raise DataError(explain(error.__cause__ or error, repo)) from error


def _about_config(error: ValueError, repo: Repo, selection: dict[str, str]) -> str:
    """The error of an unknown configuration; `datasets` lists the known ones as a Python list in its message."""
    listed = re.search(r"configs?: (\[.*?\])|Available: (\[.*?\])", str(error))
    if not listed:
        return explain(error, repo)
    configs = [first or second for first, second in re.findall(r"'([^']*)'|\"([^\"]*)\"", listed[1] or listed[2])]
    if "name" not in selection:
        return _several(repo, sorted(configs))
    return f"{repo}: configuration: {unknown(selection['name'], configs)}"


def _several(repo: Repo, configs: Sequence[str]) -> str:
    return (
        f"{repo} has several configurations; name one of {', '.join(configs)}, as {repo.name}/{configs[0]} or with "
        "`config` in a sweep file."
    )


def _download(repo: Repo, data_files: dict[str, list[str]], commit: str, progress: Progress) -> None:
    """Download the files into the hub's cache, where `datasets` finds them."""
    from huggingface_hub import hf_hub_download

    start = f"hf://datasets/{repo.name}@{commit}/"
    for url in dict.fromkeys(url for files in data_files.values() for url in files):
        if url.startswith(start):
            file = url.removeprefix(start)
            hf_hub_download(repo.name, file, repo_type="dataset", revision=commit, tqdm_class=bar_class(file, progress))


def _locate(draft: DataDraft, *, offline: bool, progress: Progress) -> Located:
    dataset = fetch_dataset(str(draft.hub), draft.config, draft.revision, offline=offline, progress=progress)
    return locate_splits(dataset, draft, "name them with `splits: {train: ..., dev: ..., test: ...}`")


def _means(word: str) -> Keys | None:
    """NAME, NAME/CONFIG, OWNER/NAME or OWNER/NAME/CONFIG, unless it is rather a path."""
    *repository, last = word.partition("@")[0].split("/")
    is_file = Path(last.removesuffix(".gz")).suffix.lower() in FORMATS
    is_name = len(repository) <= 2 and is_repo_name("/".join([*repository, last][:2])) and is_plain(last)
    return None if is_file or not is_name else _named(word, word)


def _named(word: str, rest: str) -> Keys:
    name, version = name_and_version(word, rest)
    owner, _, within = name.partition("/")
    repository, _, config = within.partition("/")
    return {"hub": f"{owner}/{repository}" if repository else owner, "config": config or None, "revision": version}


def _inexact(draft: DataDraft) -> tuple[str, str] | None:
    version = f"@{draft.revision}" if draft.revision else ""
    asked = f"dataset {_name(str(draft.hub), draft.config)}{version}"
    return None if is_commit(draft.revision) else (asked, "commit" if version else "newest commit")


CORPUS_SOURCES.register("hub")(FileSource(_locate, _means, _named, _inexact, rank=3))
