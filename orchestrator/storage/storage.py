"""Where a store lies: a folder of this machine, or the same interface over an object store (`remote`).

A place holds objects that appear whole under their name or not at all, and are never changed. Names that begin with a
dot are nobody's but the writer's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from trials.errors import StoreError

T = TypeVar("T")

LITTER = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")  # of a killed writer


class Storage(ABC):
    """A folder of objects.

    Attributes:
        address: What `open_store` takes to come here again; holds no secret.
        largest_bytes: Beyond this size an object may not be written; None where any is whole or not there.
        at_once: How many objects are best read or deleted at the same time.
    """

    address: str
    largest_bytes: int | None = None
    at_once = 1

    @abstractmethod
    def __str__(self) -> str:
        """What an error names."""

    @abstractmethod
    def at(self, name: str) -> Storage:
        """The folder of this name inside, there or not."""

    @abstractmethod
    def files(self) -> dict[str, int]:
        """Name and bytes of each object here, in the order of names; none where the folder is not there.

        An object that is there from before the call to its end is listed. One that compaction replaces meanwhile is
        listed, or the one that has its rows.
        """

    @abstractmethod
    def folders(self) -> list[str]:
        """The names of the folders inside, in order."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether an object is there. A remote one that was seen once is not asked for again."""

    @abstractmethod
    def open(self, name: str) -> pa.NativeFile:
        """Open an object that is never changed. A remote one is fetched once in a process, while there is room for it.

        Raises:
            FileNotFoundError: it is not there.
            StoreError: a remote one cannot be read.
        """

    @abstractmethod
    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write a new object: when this returns, it is there and lasts; killed at any moment, there is no half of it.

        Raises:
            StoreError: it cannot be written.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Take an object away, if it is there."""

    @abstractmethod
    def is_free(self) -> bool:
        """Whether nothing is here but what a killed process of ours left."""

    @abstractmethod
    def check_writable(self) -> None:
        """Tell what can be told without writing.

        Raises:
            StoreError: a new store could not be written here.
        """

    @abstractmethod
    def read(self, name: str) -> bytes:
        """What an object contains now. Raises as `open` does."""

    def each(self, function: Callable[[str], T], names: Sequence[str]) -> list[T]:
        """The function of each name, in order, some at the same time where that is faster."""
        if self.at_once == 1 or len(names) < 2:
            return [function(name) for name in names]
        with ThreadPoolExecutor(self.at_once) as pool:
            return list(pool.map(function, names))


class FolderStorage(Storage):
    """A folder of this machine: written under a temporary name, flushed to the disk, renamed.

    Attributes:
        folder: The folder; made at the first write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = str(folder)

    def __str__(self) -> str:
        return self.address

    def at(self, name: str) -> FolderStorage:
        """The folder of this name inside."""
        return FolderStorage(self.folder / name)

    def files(self) -> dict[str, int]:
        """Name and bytes of each file.

        The system promises nothing of a file that comes or goes while its folder is read: compaction may put the new
        part behind the reader and take an old one away before it. So the folder is read again: what replaced a part
        that vanished in the first reading is there before the second one begins.
        """
        return dict(sorted((self._listed() | self._listed()).items()))

    def _listed(self) -> dict[str, int]:
        found = {}
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.folder) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    with contextlib.suppress(FileNotFoundError):
                        if entry.is_file():
                            found[entry.name] = entry.stat().st_size
        return found

    def folders(self) -> list[str]:
        """The names of the folders inside."""
        return sorted(path.name for path in self.folder.glob("*") if path.is_dir())

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        return (self.folder / name).is_file()

    def open(self, name: str) -> pa.NativeFile:
        """Open a file."""
        return pa.OSFile(str(self.folder / name))

    def read(self, name: str) -> bytes:
        """What the file contains."""
        return (self.folder / name).read_bytes()

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write a file under a temporary name and rename it; its bytes, and then its name, are flushed to the disk."""
        temporary = self.folder / f".{name}.{uuid.uuid4().hex[:8]}.tmp"
        new = list(takewhile(lambda folder: not folder.exists(), (self.folder, *self.folder.parents)))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.folder / name)
            for folder in (self.folder, *(one.parent for one in new)):
                _flush_names(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise StoreError(
                f"{self}: cannot be written ({error.strerror}). What was committed before is whole."
            ) from error

    def delete(self, name: str) -> None:
        """Take a file away, if it is there."""
        (self.folder / name).unlink(missing_ok=True)

    def is_free(self) -> bool:
        """Whether the folder is not there, or empty but for litter."""
        if not self.folder.exists():
            return True
        return self.folder.is_dir() and all(LITTER.fullmatch(path.name) for path in self.folder.iterdir())

    def check_writable(self) -> None:
        """Tell whether the folder, or the one it will be made in, is this user's to write."""
        if not os.access(next(p for p in (self.folder, *self.folder.parents) if p.exists()), os.W_OK):
            raise StoreError(f"{self}: cannot be written. Give another folder with --store.")


def _flush_names(folder: Path) -> None:
    """Put on the disk which files a folder holds: a power cut may undo a rename that was not flushed."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems flush no folders
            raise
    finally:
        os.close(opened)
