"""Files that the workers of a node share, with a bound on their size; and what a trial reports while it makes them.

    <cache>/<kind>/<key>/...      `prefix`: states of frozen layers; `tokens`: encoded corpora; `gradient_checks`:
                                  which ways of running steps were found right here

A folder records the boot id of its creation, since a crash of the machine may lose bytes that a file seems to have.
Whatever is read from it has a digest, seeded with the folder's key and the file's name, so that a flipped bit, a cut or
a swapped file is noticed. XXH3 reads 8 GB/s where SHA-256 reads 0.6. It guards against disks and mistakes: whoever
may write to this folder can do worse.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import xxhash

from trials.escaping import read_bytes, read_json
from trials.sources.cache import cache_root, discard, locked

BYTES_VARIABLE = "PERMAFROST_NODE_BYTES"
MOST_BYTES = 32 << 30
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def node_folder(kind: str, key: str, n_bytes: int) -> Path:
    """The folder of a key, created if necessary; others are evicted, the least recently used first, to make room.

    Raises:
        OSError: it cannot be created, or `n_bytes` exceed the limit.
    """
    root = cache_root() / kind
    folder = root / key
    with locked(root / ".lock"):
        if existing_folder(kind, key) is None:
            with contextlib.suppress(FileNotFoundError):
                discard(folder)
        _make_room(root, n_bytes, keep=folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "boot").write_bytes(_boot())
        os.utime(folder)
    return folder


def existing_folder(kind: str, key: str) -> Path | None:
    """The folder of a key, if it was created since the machine booted; else None."""
    folder = cache_root() / kind / key
    try:
        return folder if not folder.is_symlink() and read_bytes(folder / "boot") == _boot() else None
    except OSError:
        return None


def fast_digest(content: bytes | memoryview, *place: object) -> int:
    """The digest of a file's content, or of a part of it, at its place: any values that tell it from others."""
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


def _boot() -> bytes:
    try:
        return _BOOT.read_bytes().strip()
    except OSError:
        return b"unknown"


# What a trial does before its first record, for whoever runs it to show.
#
#     with reported_to(show):
#         record = next(records)      # calls show("encoding en_ewt train: 1,200 of 2,000 sentences") now and then
#
# Encoding a corpus and computing states of frozen layers take minutes on large data. A trial whose caches are warm
# reports nothing.

EVERY_S = 2.0  # between two reports, and before the first

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SetUpWork:
    """A countable part of the set-up of a trial; or, with a total of 0, a note.

    Attributes:
        what: What is done to what, e.g. `encoding en_ewt train`.
        unit: What is counted, e.g. `sentences`.
    """

    what: str
    total: int = 0
    unit: str = ""
    done: int = 0

    @property
    def is_note(self) -> bool:
        """Whether it is something to say once, such as that a broken file was thrown away."""
        return not self.total

    def __str__(self) -> str:
        return self.what if self.is_note else f"{self.what}: {self.done:,} of {self.total:,} {self.unit}"


Report = Callable[[SetUpWork], None]
_reporting: ContextVar[tuple[Report, float] | None] = ContextVar("_reporting", default=None)


@contextmanager
def reported_to(report: Report, every_s: float = EVERY_S) -> Iterator[None]:
    """Call `report` with the work of trials that run inside the block, no more often than every `every_s` seconds."""
    token = _reporting.set((report, every_s))
    try:
        yield
    finally:
        _reporting.reset(token)


def note(what: str) -> None:
    """Say something about the set-up at once, to whoever asks for its progress; else in the log."""
    if reporting := _reporting.get():
        reporting[0](SetUpWork(what))
    else:
        _log.warning("%s", what)


def counted(items: Iterable[T], work: SetUpWork, size: Callable[[T], int] = lambda _: 1) -> Iterator[T]:
    """The items, each of which counts as done when the next one is asked for; `size` is how much one counts."""
    reporting = _reporting.get()
    if reporting is None:
        yield from items
        return
    report, every_s = reporting
    done, due = 0, time.monotonic() + every_s
    for item in items:
        yield item
        done += size(item)
        if (now := time.monotonic()) >= due:
            report(SetUpWork(work.what, work.total, work.unit, done))
            due = now + every_s
