"""Files that the workers of a node share, with a bound on their size; and what a trial reports while it makes them.

    <cache>/<kind>/<key>/...      `prefix`: states of frozen layers; `tokens`: encoded corpora; `gradient_checks`:
                                  which ways of running steps were found right here; `pilots`: what they took

Whatever is read from a folder has a digest, seeded with the folder's key and the file's name, so that a flipped bit, a
cut or a swapped file is noticed, and bytes that a crash of the machine lost. XXH3 reads 8 GB/s where SHA-256 reads 0.6.
It guards against disks and mistakes: whoever may write to this folder can do worse.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import xxhash

from trials.outside.plain_files import read_json
from trials.sources.cache import cache_root, discard, file_lock

BYTES_VARIABLE = "PERMAFROST_NODE_BYTES"
MOST_BYTES = 32 << 30  # bytes of a kind, unless `BYTES_VARIABLE` says otherwise


def node_folder(kind: str, key: str, n_bytes: int) -> Path:
    """The folder of a key, created if necessary; others are evicted, the least recently used first, to make room.

    Raises:
        OSError: it cannot be created, or `n_bytes` exceed the limit.
    """
    root = cache_root() / kind
    folder = root / key
    with file_lock(root / ".lock"):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            discard(folder)
        _make_room(root, n_bytes, keep=folder)
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    return folder


def existing_folder(kind: str, key: str) -> Path | None:
    """The folder of a key; None if it is not there."""
    folder = cache_root() / kind / key
    return folder if folder.is_dir() and not folder.is_symlink() else None


def fast_digest(content: bytes | memoryview, *place: object) -> int:
    """The digest of a file's content, or of a part of it. `place` are values that distinguish it from other content."""
    return xxhash.xxh3_64_intdigest(content, seed=xxhash.xxh3_64_intdigest(repr(place).encode()))


def write_json(path: Path, content: Any, *place: object) -> None:
    """Write JSON with its digest, atomically. Raises OSError."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    text = json.dumps(content, sort_keys=True)
    part.write_text(json.dumps({"digest": fast_digest(text.encode(), *place), "content": text}), encoding="utf-8")
    part.replace(path)


def read_checked_json(path: Path, *place: object) -> Any:
    """What `write_json` wrote at this place.

    Raises:
        OSError: there is no plain file.
        ValueError: it is not what was written.
    """
    try:
        written = read_json(path)
        if written["digest"] == fast_digest(written["content"].encode(), *place):
            return json.loads(written["content"])
    except (TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: not a file of the cache") from error
    raise ValueError(f"{path}: its digest does not fit")


def allowed_bytes(root: Path) -> int:
    """Size limit of all folders of a kind: $PERMAFROST_NODE_BYTES, else half of the free disk, at most 32 GiB."""
    given = os.environ.get(BYTES_VARIABLE, "")
    return int(given) if given.isdigit() else min(MOST_BYTES, shutil.disk_usage(root).free // 2)


def _make_room(root: Path, n_bytes: int, *, keep: Path) -> None:
    limit = allowed_bytes(root)
    if n_bytes > limit:
        raise OSError(errno.EFBIG, f"{n_bytes:,} bytes are more than the {limit:,} allowed", str(root))
    if keep.exists():
        return
    cached = sorted((path for path in root.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    taken = {path: sum(file.lstat().st_blocks * 512 for file in path.iterdir()) for path in cached}
    for path in cached:
        if sum(taken.values()) + n_bytes <= limit:
            return
        shutil.rmtree(path, ignore_errors=True)  # a process that has it mapped can read it on
        del taken[path]
