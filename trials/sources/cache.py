"""The cache of downloaded corpora; a manifest in a corpus's folder marks it as complete."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import BaseFileLock, FileLock

from trials.errors import DataError
from trials.outside.plain_files import digest_of, path_inside, read_json

MANIFEST = "manifest.json"
_FORMAT = 1  # of manifests; a corpus with another one is fetched anew
_UD_SPLIT = re.compile(r"-ud-(train|dev|test)\b.*\.conllu$")
# hub/datasets has one more level: the configuration.
_FOLDERS = ("ud/*/*", "hub/datasets/*/*/*")


def download_ban(*, offline: bool, datasets: bool = False) -> str | None:
    """What forbids downloads: `--offline`, or the hub library's own switch in the environment; None if nothing does.

    Args:
        offline: Whether `--offline` was given.
        datasets: Whether the switch of `datasets` counts as well.
    """
    if offline:
        return "--offline"
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return "HF_HUB_OFFLINE" if os.environ.get("HF_HUB_OFFLINE") else "TRANSFORMERS_OFFLINE"
    is_on = (os.environ.get("HF_DATASETS_OFFLINE") or "").upper() in constants.ENV_VARS_TRUE_VALUES
    return "HF_DATASETS_OFFLINE" if datasets and is_on else None


def cache_root() -> Path:
    """$PERMAFROST_CACHE, else $XDG_CACHE_HOME/permafrost, else ~/.cache/permafrost; it need not exist yet."""
    if own := os.environ.get("PERMAFROST_CACHE"):
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "permafrost"


@dataclass(frozen=True)
class FetchedCorpus:
    """A complete corpus in the cache.

    Attributes:
        name: E.g. `UD_English-EWT`, `nyu-mll/glue/sst2`.
        kind: `ud` for a treebank's own repository, `hub` for a dataset of the model hub, `folder` for one made of a
            folder for each class.
        source: Name and exact version, e.g. `ud:UD_English-EWT@2.16`, `hub:nyu-mll/glue/sst2@<commit>`.
        licence: As its repository states it, shortened; None if it states none.
        files: Names inside the folder, in order.
        digests: SHA-256 of each file, in hexadecimal digits.
        hidden: Splits left out because their labels are not published.
    """

    name: str
    kind: str
    folder: Path
    source: str
    licence: str | None
    n_bytes: int
    files: tuple[str, ...]
    digests: tuple[str, ...]
    hidden: tuple[str, ...] = ()

    @property
    def splits(self) -> dict[str, tuple[Path, ...]]:
        """The files of every split by the source's split name (on the hub `dev` is mostly called `validation`)."""
        splits = dict[str, tuple[Path, ...]]()
        for file in self.files:
            if file.endswith(".jsonl"):  # rows that were written, a file a split
                splits[file.removesuffix(".jsonl")] = (path_inside(self.folder, file),)
            elif match := _UD_SPLIT.search(file):
                splits[match[1]] = (*splits.get(match[1], ()), path_inside(self.folder, file))
        return splits


def read_manifest(folder: Path) -> FetchedCorpus | None:
    """The corpus in a folder; None if it has no manifest, or a file is missing or has another size."""
    try:
        manifest = read_json(folder / MANIFEST)
        files, sizes, digests = zip(
            *((entry["name"], entry["bytes"], entry["sha256"]) for entry in manifest["files"]), strict=True
        )
        corpus = FetchedCorpus(
            manifest["name"], manifest["kind"], folder, manifest["source"], manifest["licence"], sum(sizes), files,
            digests, tuple(manifest["hidden"]),
        )  # fmt: skip
        texts = (corpus.name, corpus.kind, corpus.source, corpus.licence or "", *corpus.hidden)
        is_ours = manifest["format"] == _FORMAT and {*map(type, texts)} == {str}
        # A name that leads out of the folder is refused.
        sized = zip(files, sizes, strict=True)
        is_here = all(path_inside(folder, file).stat().st_size == n for file, n in sized)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None  # an unfinished download, which is resumed
    return corpus if is_ours and is_here else None


def whole_corpus(folder: Path) -> FetchedCorpus | None:
    """The corpus in a folder, whose files may then be read; None if it lacks any of the bytes that were fetched."""
    corpus = read_manifest(folder)
    try:
        digests = zip(corpus.files, corpus.digests, strict=True) if corpus else ()
        is_whole = all(digest_of(path_inside(folder, file)).hex() == digest for file, digest in digests)
    except OSError:
        return None
    return corpus if is_whole else None


def write_manifest(
    folder: Path,
    *,
    name: str,
    kind: str,
    source: str,
    licence: str | None,
    files: Iterable[str],
    hidden: Iterable[str] = (),
) -> FetchedCorpus:
    """Write the manifest of a folder that has all its files; the arguments are attributes of `FetchedCorpus`. Raises
    DataError.
    """
    manifest = {
        "format": _FORMAT,
        "name": name,
        "kind": kind,
        "source": source,
        "licence": licence,
        "hidden": list(hidden),
        "files": [
            {"name": file, "bytes": (folder / file).stat().st_size, "sha256": digest_of(folder / file).hex()}
            for file in files
        ],
    }
    # Renamed only when complete: a folder with a manifest is a finished download.
    part = folder / f"{MANIFEST}.part"
    with explain_write_errors(folder):
        part.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(folder / MANIFEST)
    corpus = read_manifest(folder)
    assert corpus is not None
    return corpus


def fetched_corpora() -> list[FetchedCorpus]:
    """The complete corpora in the cache, sorted by source."""
    folders = [folder for pattern in _FOLDERS for folder in cache_root().glob(pattern)]
    return sorted(filter(None, map(read_manifest, folders)), key=lambda corpus: corpus.source)


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of writing to `path` (disk full, no permission) into a DataError."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror or error}). "
            "Make room there, or set PERMAFROST_CACHE to another folder."
        ) from error


def file_lock(path: Path) -> BaseFileLock:
    """The lock of a file, to be held in a `with`; a second process waits there.

    The file is created with its folder, in place of whatever else has its name. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        discard(path)
    return FileLock(path)


def discard(path: Path) -> None:
    """Delete whatever has this name: a file, a link but not its target, a pipe, a folder with all that is in it.

    Raises:
        OSError: it cannot be deleted.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create a folder and lock it: a second process waits, and then finds the files there. Raises DataError."""
    with explain_write_errors(folder):
        lock = file_lock(folder / ".lock").acquire()
    with lock:
        yield
