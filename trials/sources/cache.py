"""The folder that fetched corpora are kept in, and the manifest that says that one of them is complete."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeGuard

from trials.errors import DataError

Progress = Callable[[str, int, int | None], None]
"""Told of every piece of a download: file name, bytes so far, bytes in all or None where nobody knows."""

MANIFEST = "manifest.json"
_FORMAT = 1
_UD_SPLIT = re.compile(r"-ud-(train|dev|test)\b.*\.conllu$")
# hub/datasets has one folder more: the configuration.
_FOLDERS = ("ud/*/*", "hub/datasets/*/*/*")


def no_progress(name: str, n_bytes: int, total: int | None) -> None:
    """For callers that show nothing."""


def cache_root() -> Path:
    """$PERMAFROST_CACHE, else $XDG_CACHE_HOME/permafrost, else ~/.cache/permafrost; it need not exist yet."""
    if own := os.environ.get("PERMAFROST_CACHE"):
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "permafrost"


@dataclass(frozen=True)
class Fetched:
    """A corpus in the cache, complete.

    Attributes:
        name: What people call it: `UD_English-EWT`, `nyu-mll/glue/sst2`.
        kind: `ud`, a treebank's own repository; `hub`, a dataset of the model hub.
        folder: Where its files are.
        source: Name and exact version: `ud:UD_English-EWT@2.16`, `hub:nyu-mll/glue/sst2@<commit>`.
        licence: As its repository states it, shortened; None where it states none.
        n_bytes: Sum of its files.
        files: Names inside the folder, in order.
        hidden: Splits left out because their labels are not published.
    """

    name: str
    kind: Literal["ud", "hub"]
    folder: Path
    source: str
    licence: str | None
    n_bytes: int
    files: tuple[str, ...]
    hidden: tuple[str, ...] = ()

    @property
    def splits(self) -> dict[str, tuple[Path, ...]]:
        """The files of every split under the split's own name (the hub's `dev` is mostly `validation`)."""
        splits = dict[str, tuple[Path, ...]]()
        for file in self.files:
            if self.kind == "hub":
                splits[file.removesuffix(".jsonl")] = (self.folder / file,)
            elif match := _UD_SPLIT.search(file):
                splits[match[1]] = (*splits.get(match[1], ()), self.folder / file)
        return splits


def complete(folder: Path) -> Fetched | None:
    """What the folder's manifest tells; None without one, or where a file is gone or has another size."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        words = [manifest["name"], manifest["source"], manifest["licence"] or "", *manifest["hidden"]]
        if manifest["format"] != _FORMAT or manifest["kind"] not in ("ud", "hub"):
            return None
        if not all(isinstance(word, str) for word in words) or not all(
            _has(folder, file) for file in manifest["files"]
        ):
            return None
        return Fetched(
            name=manifest["name"],
            kind=manifest["kind"],
            folder=folder,
            source=manifest["source"],
            licence=manifest["licence"],
            n_bytes=sum(file["bytes"] for file in manifest["files"]),
            files=tuple(file["name"] for file in manifest["files"]),
            hidden=tuple(manifest["hidden"]),
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None  # an unfinished download, which is fetched again


def _has(folder: Path, file: dict[str, Any]) -> bool:
    """Whether a file is in the folder as the manifest says; a name that leads out of it is none."""
    name = file["name"]
    return is_plain(name) and bool((folder / name).stat().st_size == file["bytes"])


def is_plain(name: object) -> TypeGuard[str]:
    """Whether a name that a listing, a manifest or a hub supplied is that of a file, and leads to no other folder."""
    if not isinstance(name, str) or not name.isprintable():
        return False
    return name not in ("", ".", "..") and "/" not in name and "\\" not in name


def finish(
    folder: Path,
    *,
    name: str,
    kind: Literal["ud", "hub"],
    source: str,
    licence: str | None,
    files: Iterable[str],
    hidden: Iterable[str] = (),
) -> Fetched:
    """Write the manifest of a folder whose files are all there; the attributes are those of `Fetched`.

    Raises:
        DataError: the manifest cannot be written.
    """
    manifest = {
        "format": _FORMAT,
        "name": name,
        "kind": kind,
        "source": source,
        "licence": licence,
        "hidden": list(hidden),
        "files": [_described(folder, file) for file in files],
    }
    # Under its own name only when whole: a folder with a manifest is a finished download.
    part = folder / f"{MANIFEST}.part"
    with writing(folder):
        part.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(folder / MANIFEST)
    found = complete(folder)
    assert found is not None
    return found


def _described(folder: Path, file: str) -> dict[str, Any]:
    return {"name": file, "bytes": (folder / file).stat().st_size, "sha256": _sha256(folder / file)}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetched() -> list[Fetched]:
    """All that is complete in the cache, by source; unfinished downloads are not listed."""
    folders = [folder for pattern in _FOLDERS for folder in cache_root().glob(pattern)]
    return sorted((found for folder in folders if (found := complete(folder))), key=lambda found: found.source)


def damaged(found: Fetched) -> list[str]:
    """Files whose bytes are no longer those of the download, in order; reads all of them."""
    files = json.loads((found.folder / MANIFEST).read_text(encoding="utf-8"))["files"]
    return [file["name"] for file in files if _sha256(found.folder / file["name"]) != file["sha256"]]


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns a full or forbidden disk under `path` into a DataError that says so."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror or error}). "
            "Make room there, or set PERMAFROST_CACHE to another folder."
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, made, for one process at a time: a second one waits and then finds the work done."""
    import fcntl

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the file is closed, also by a killed process
        yield
