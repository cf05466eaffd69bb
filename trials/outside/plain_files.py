"""Files whose names come from outside: only plain ones of bounded size are read.

A name may lead to a pipe, on which a reader waits for ever, to a device without an end, or into /proc, whose files
say that they are empty and hold secrets of this process. Links are followed, as the caches of other programs consist
of them. Every reader of a file that a user, a hub or another program names goes through this module.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

MOST_TEXT = 16 << 20  # bytes of a file that declares or describes something
MOST_VOCABULARY = 128 << 20  # bytes of a tokenizer's file; the largest have 60 MB
MOST_CONTENT = 128 << 30  # bytes of a corpus or of weights; their readers have tighter bounds
_POINTERS = {  # how a file begins whose content is elsewhere, and what it is
    b"version https://git-lfs": "a Git LFS pointer: `git lfs pull` fetches the file",
    b"/annex/objects": "a pointer of git-annex: `git annex get` fetches the file",
}
_LARGE, _PIECE = 2_000_000_000, 1 << 20  # bytes: of a file whose reading is shown, and of what is read at once
Progress = Callable[[str, str, int, int | None], None]
progress: ContextVar[Progress] = ContextVar("progress", default=lambda verb, name, done, total: None)
"""Hears of downloads and of large files: what is done, to which file, bytes so far, total bytes or None if unknown."""
_SETTLED_NS = 2_000_000_000  # a change within a file system's clock tick, or that of a server, shows no new time


class NotPlainError(OSError):
    """A name that leads to no plain file, or to one that is too large."""

    def __init__(self, path: Path | str, rule: str, code: int = errno.EINVAL) -> None:
        super().__init__(code, rule, str(path))


def is_plain(name: object) -> TypeGuard[str]:
    """Whether a name from a store, a listing or a hub is a plain file name that leads to no other folder."""
    if not isinstance(name, str) or not name.isprintable():
        return False
    return name not in ("", ".", "..") and "/" not in name and "\\" not in name


def path_inside(folder: Path, *names: str) -> Path:
    """The path of a file in a folder, or in folders inside it, of names that somebody else wrote.

    Every path that is made from the text of a store, an archive or a listing is made here.

    Raises:
        NotPlainError: a name would lead out of its folder.
    """
    for name in names:
        if not is_plain(name):
            raise NotPlainError(name, "not the plain name of a file")
    return folder.joinpath(*names)


class Stamp(NamedTuple):
    """What changes when a file's content does: a write, a replacement, a restored time of modification."""

    device: int
    inode: int
    n_bytes: int
    modified_ns: int
    changed_ns: int

    def is_settled(self, since_ns: int) -> bool:
        """Whether any change from this time on, in nanoseconds, gives another stamp."""
        return max(self.modified_ns, self.changed_ns) + _SETTLED_NS < since_ns


def stamp_of(path: Path | str, most: int = MOST_CONTENT) -> Stamp:
    """The stamp of a plain file; it is not opened.

    Raises:
        NotPlainError: it is a folder, pipe, device or socket, or has more than `most` bytes.
        OSError: there is none.
    """
    return _stamp(path, Path(path).stat(), most)


@contextmanager
def open_plain(path: Path | str, most: int = MOST_TEXT) -> Iterator[io.BufferedReader]:
    """A plain file, open for reading. Raises as `stamp_of` does, and NotPlainError: its content is elsewhere."""
    stamp_of(path, most)  # before it is opened, as opening a device may already do something
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not _stamp(path, os.fstat(file.fileno()), most).n_bytes and file.read(1):
            if not os.fstat(file.fileno()).st_size:  # else it has just been written
                raise NotPlainError(path, "not a regular file")  # of /proc
            file.seek(0)
        first = file.peek()
        if what := next((what for start, what in _POINTERS.items() if first.startswith(start)), None):
            raise NotPlainError(path, what)
        yield file


def read_bytes(path: Path | str, most: int = MOST_TEXT) -> bytes:
    """The content of a plain file. Raises as `stamp_of` does."""
    with open_plain(path, most) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        content = file.read(n_bytes + 1)
    if len(content) != n_bytes:
        raise _changing_error(path)
    return content


def read_text(path: Path | str, most: int = MOST_TEXT, *, errors: str = "strict") -> str:
    """The UTF-8 text of a plain file. Raises as `stamp_of` does, and UnicodeDecodeError."""
    return read_bytes(path, most).decode("utf-8", errors)


def read_json(path: Path | str, most: int = MOST_TEXT) -> Any:
    """The JSON in a plain file. Raises as `stamp_of` does, ValueError if it is not JSON, RecursionError."""
    return json.loads(read_bytes(path, most))


_digests: dict[str, tuple[Stamp, bytes]] = {}  # of this process


def digest_of(path: Path | str, most: int = MOST_CONTENT) -> bytes:
    """SHA-256 of a plain file; one whose stamp has not changed since this process read it is not read again.

    Raises:
        NotPlainError: it changes while it is read.
        OSError: as `stamp_of`.
    """
    stamp, began_ns = stamp_of(path, most), time.time_ns()
    before, digest = _digests.get(str(path), (None, b""))
    if before == stamp:
        return digest
    with open_plain(path, most) as file:
        whole = hashlib.sha256()
        while piece := file.read(_PIECE):
            whole.update(piece)
            if stamp.n_bytes > _LARGE:
                progress.get()("read", Path(path).name, file.tell(), stamp.n_bytes)
        digest = whole.digest()
        if stamp_of(path, most) != stamp or _stamp(path, os.fstat(file.fileno()), most) != stamp:
            raise _changing_error(path)
    if stamp.is_settled(began_ns):
        _digests[str(path)] = stamp, digest
    return digest


def _stamp(path: Path | str, status: os.stat_result, most: int) -> Stamp:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise NotPlainError(path, "not a regular file")
    if status.st_size > most:
        raise NotPlainError(path, f"larger than the {most:,} bytes that it may have", errno.EFBIG)
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _changing_error(path: Path | str) -> NotPlainError:
    return NotPlainError(path, "changing while it is read", errno.EBUSY)
