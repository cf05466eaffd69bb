"""Datasets of the model hub at a commit, through the hub's own libraries and cached as JSON lines (`hub`).

The rows are written canonically: a digest depends on them, and not on a library's version, as that of Parquet would.
"""

from __future__ import annotations

import glob
import importlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trials.corpora.layout import FORMATS
from trials.errors import DataError, quote, require, unknown_name
from trials.outside.plain_files import is_plain, path_inside
from trials.sources.cache import (
    FetchedCorpus,
    cache_root,
    download_ban,
    explain_write_errors,
    lock_folder,
    whole_corpus,
    write_manifest,
)
from trials.sources.hub_client import (
    MAIN,
    Repo,
    bar_class,
    cached_snapshots,
    explain,
    explain_hub_errors,
    inexact_revision,
    is_repo_name,
    look_up,
)
from trials.sources.places.corpus_draft import CORPUS_FORM, CORPUS_SOURCES, DataDraft, Located, locate_splits
from trials.sources.source import FileSource, Keys, name_and_version

Convert = Callable[[Any], Any]

HIDDEN = -1  # the hub's value of an unpublished label
_PLAIN = ("string", "large_string", "bool", "null", "int", "uint")
_FLOAT = ("float", "double")
_AS_TEXT = ("timestamp", "date", "time", "duration", "decimal")  # JSON has none of them; their text is as exact
_EXPORTED = re.compile(r"([^/]+)/([^/]+)/\d{4}\.parquet")  # of the hub's own conversion: configuration/split/number


def fetch_dataset(repo: str, config: str | None, revision: str | None, *, offline: bool) -> FetchedCorpus:
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
    where = Repo("datasets", repo, MAIN if revision is None else revision)
    if config is not None and not is_plain(config):
        raise DataError(f"{where}: {config!r} is not the name of a configuration.")
    try:
        return _find(where, config, offline=offline)
    except DataError:
        name, _, inner = repo.partition("/")
        if inner and config is None:
            with suppress(DataError):
                return _find(Repo("datasets", name, where.revision), inner, offline=offline)
        raise


def _find(where: Repo, config: str | None, *, offline: bool) -> FetchedCorpus:
    barred = download_ban(offline=offline, datasets=True)
    if barred or where.is_pinned:
        folders = (_dataset_folder(repo, config) for repo, _ in cached_snapshots(where))
        if corpus := next(filter(None, map(whole_corpus, folders)), None):
            return corpus
    if barred:
        raise DataError(
            f"{where} ({config or 'default'}, {where.revision}) is not on this machine and {barred} forbids the "
            f"download; run `permafrost data fetch hub:{_name(where.name, config)}@{where.revision}` first."
            f"{where.near_hint}"
        )
    with explain_hub_errors(where):
        from huggingface_hub import HfApi

        repo, info = look_up(where)
        if info.gated:
            HfApi().auth_check(repo.name, repo_type="dataset")  # `datasets` would lose the reason on its way
    folder = _dataset_folder(repo, config)
    with lock_folder(folder):
        return whole_corpus(folder) or _fetch(repo, where.revision, config, info, folder)


def _dataset_folder(at: Repo, config: str | None) -> Path:
    return cache_root() / "hub" / "datasets" / at.folder_name / (config or "default") / at.revision


def _name(repo: str, config: str | None) -> str:
    return f"{repo}/{config}" if config else repo


def _fetch(at: Repo, asked: str, config: str | None, info: Any, folder: Path) -> FetchedCorpus:
    files = [sibling.rfilename for sibling in info.siblings or ()]
    if (script := f"{at.name.partition('/')[2]}.py") in files:
        raise DataError(
            f"{at} at {asked!r} is a program ({script}), which `datasets` no longer runs. "
            "Name the hub's own conversion of it: revision refs/convert/parquet."
        )
    with explain_write_errors(folder), TemporaryDirectory(dir=folder, prefix="building-") as scratch:
        splits = _load(at, _selection(at, config, files), scratch)
        hidden = []
        for split, rows in splits.items():
            if not is_plain(split):
                raise DataError(f"{at}: {split!r} is not a valid split name. Use another revision.")
            path = path_inside(folder, f"{split}.jsonl")
            try:
                labelled = write_rows(rows, rows.features, path)
            except DataError as error:
                raise DataError(f"{at}, split {split}: {error}") from error
            if not labelled:
                path.unlink()
                hidden.append(split)
    name, licence = _name(at.name, config), getattr(info.card_data, "license", None)
    return write_manifest(
        folder,
        name=name,
        kind="hub",
        source=f"hub:{name}@{at.revision}",
        licence=", ".join(map(str, licence if isinstance(licence, list) else [licence])) if licence else None,
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
        raise DataError(_several_configurations(repo, configs))
    config = config or configs[0]
    if config not in configs:
        raise DataError(f"{repo}: configuration: {unknown_name(config, configs)}")
    if any(match[1] == config and match[2].startswith("partial-") for match in exported):
        raise DataError(f"{repo}: the hub converted only a part of {config!r}. Use another source.")
    return {"data_dir": config}


def _load(at: Repo, selection: dict[str, str], scratch: str) -> dict[str, Any]:
    """The splits as `datasets.load_dataset` returns them, of files that were downloaded with progress.

    `hf://` and an empty cache prevent it from loading a local folder of that name, or a version it has cached.
    """
    require("datasets", "hub", f"{at.name}, a dataset of the hub,")
    datasets = importlib.import_module("datasets")  # it has no types
    from huggingface_hub import snapshot_download

    with explain_hub_errors(at):
        try:
            builder = datasets.load_dataset_builder(
                f"hf://datasets/{at.name}", revision=at.revision, cache_dir=scratch, **selection
            )
            start, data_files = f"hf://datasets/{at.name}@{at.revision}/", builder.config.data_files or {}
            urls = {url for of_split in data_files.values() for url in of_split if url.startswith(start)}
            if patterns := [glob.escape(url.removeprefix(start)) for url in sorted(urls)]:
                snapshot_download(
                    at.name, repo_type="dataset", revision=at.revision, allow_patterns=patterns,
                    tqdm_class=bar_class(at.name),
                )  # fmt: skip
            builder.download_and_prepare()
            return dict(builder.as_dataset())
        except OSError:
            raise  # for `explain_hub_errors`; some are ValueErrors as well
        except ValueError as error:
            raise DataError(_about_config(error, at, selection)) from error
        except datasets.exceptions.DatasetsError as error:
            raise DataError(explain(error.__cause__ or error, at)) from error


def _about_config(error: ValueError, repo: Repo, selection: dict[str, str]) -> str:
    """The error of an unknown configuration; `datasets` lists the known ones as a Python list in its message."""
    listed = re.search(r"configs?: (\[.*?\])|Available: (\[.*?\])", str(error))
    if not listed:
        return explain(error, repo)
    configs = [first or second for first, second in re.findall(r"'([^']*)'|\"([^\"]*)\"", listed[1] or listed[2])]
    if "name" not in selection:
        return _several_configurations(repo, sorted(configs))
    return f"{repo}: configuration: {unknown_name(selection['name'], configs)}"


def _several_configurations(repo: Repo, configs: Sequence[str]) -> str:
    return (
        f"{repo} has several configurations; name one of {', '.join(configs)}, as {repo.name}/{configs[0]} or with "
        "`config` in a sweep file."
    )


def write_rows(rows: Iterable[Mapping[str, Any]], features: Mapping[str, Any], path: Path) -> bool:
    """Write one JSON object per row: keys sorted, no spaces, class ids replaced by their names.

    A hidden class (-1) and a number that is not finite become null.

    Args:
        rows: In order, every column in each.
        features: The `datasets` feature of each column.

    Returns:
        Whether the rows have labels; False if all values of all label columns are hidden, as in GLUE's test splits.

    Raises:
        DataError: a column that holds no text or numbers (an image, bytes).
    """
    converts = {column: converter(column, feature) for column, feature in features.items()}
    labels = label_columns(features)
    n_rows, labelled = 0, False
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            n_rows += 1
            labelled = labelled or any(row[column] != HIDDEN for column in labels)
            converted = {column: convert(row[column]) for column, convert in converts.items()}
            file.write(json.dumps(converted, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n")
    return labelled or not labels or not n_rows


def label_columns(features: Mapping[str, Any]) -> list[str]:
    """Columns whose -1 means hidden: the classes, or, for a regression, the number called `label`."""
    classes = [column for column, feature in features.items() if type(feature).__name__ == "ClassLabel"]
    number = str(getattr(features.get("label"), "dtype", "")).startswith(("float", "int"))
    return classes or (["label"] if number else [])


def converter(column: str, feature: Any) -> Convert:
    """The function from a value, as `datasets` gives it, to what JSON holds. Raises DataError: see `write_rows`."""
    kind = type(feature).__name__  # by name, so that a plan need not load the library
    if isinstance(feature, dict):
        parts = {key: converter(f"{column}.{key}", inner) for key, inner in feature.items()}
        return _optional(lambda value: {key: part(value[key]) for key, part in parts.items()})
    if kind in ("List", "LargeList", "Sequence"):
        inner = converter(column, feature.feature)
        return _optional(lambda values: [inner(value) for value in values])
    if kind == "ClassLabel":
        names = list(feature.names)
        return _optional(lambda number: names[number] if number >= 0 else None)
    if kind == "Value" and feature.dtype.startswith(_FLOAT):
        return _optional(lambda number: number if math.isfinite(number) else None)
    if kind == "Value" and feature.dtype.startswith(_AS_TEXT):
        return _optional(str)
    if kind == "Value" and feature.dtype.startswith(_PLAIN):
        return _optional(lambda value: value)
    raise DataError(
        f"column {quote(column)} holds {quote(feature)}; only text, numbers and classes, or lists of them, are read."
    )


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _locate(draft: DataDraft, *, offline: bool) -> Located:
    dataset = fetch_dataset(str(draft.hub), draft.config, draft.revision, offline=offline)
    return locate_splits(dataset, draft, "name them with `splits: {train: ..., dev: ..., test: ...}`")


def _means(word: str) -> Keys | None:
    """NAME, NAME/CONFIG, OWNER/NAME or OWNER/NAME/CONFIG, unless it is rather a path."""
    *repository, last = word.partition("@")[0].split("/")
    is_file = Path(last.removesuffix(".gz")).suffix.lower() in FORMATS
    is_name = len(repository) <= 2 and is_repo_name("/".join([*repository, last][:2])) and is_plain(last)
    return None if is_file or not is_name else _keys(word, word)


def _keys(word: str, rest: str) -> Keys:
    name, version = name_and_version(word, rest, CORPUS_FORM)
    owner, _, within = name.partition("/")
    repository, _, config = within.partition("/")
    return {"hub": f"{owner}/{repository}" if repository else owner, "config": config or None, "revision": version}


def _inexact(draft: DataDraft) -> tuple[str, str] | None:
    return inexact_revision(f"dataset {_name(str(draft.hub), draft.config)}", draft.revision)


CORPUS_SOURCES.register("hub")(FileSource(_locate, _means, _keys, _inexact, rank=3, is_remote=True))
