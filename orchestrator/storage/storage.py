"""Where a store's objects are: a folder of this machine, or the same interface over an object store (`object_storage`).

Objects appear atomically under their name and never change. Names that begin with a dot are private to the writer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, NoReturn, TypeVar

import pyarrow as pa

from trials.errors import StoreError, quote
from trials.outside.plain_files import (
    MOST_CONTENT,
    NotPlainError,
    is_plain,
    open_plain,
    path_inside,
    read_bytes,
    stamp_of,
)


class BrokenError(StoreError):
    """A file of a store that is corrupted or was not written by Permafrost.

    Attributes:
        wrong: What is wrong with it, without its path and the fix.
    """

    def __init__(
        self, path: str, wrong: str, way_out: str = "Delete it: the same launch runs again what it held"
    ) -> None:
        self.wrong = wrong
        super().__init__(f"{path}: {wrong}. {way_out}.")


class NewerError(BrokenError):
    """An intact file that a newer version wrote."""

    def __init__(self, path: str, wrong: str) -> None:
        super().__init__(path, wrong, "Upgrade permafrost-sweeps")


class AccessError(StoreError):
    """A file or folder of a store that this user may not read or write, as one that another user made."""

    def __init__(self, path: object, action: str) -> None:
        super().__init__(f"{path}: cannot be {action} ({os.strerror(errno.EACCES)}). Make it {_RIGHT[action]} first.")


_RIGHT = {"read": "readable", "written": "writable", "deleted": "writable"}

T = TypeVar("T")
Item = TypeVar("Item")

TEMPORARY_FILE = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")  # left by a killed writer
LAST = "\U0010ffff"  # after all names
MOST_JSON = 512 << 20  # a plan of 100,000 trials has 200 MB
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)  # the errors of a file system without hard links


class Storage(ABC):
    """A folder of objects. Every method raises AccessError, a StoreError, where this user may not do what it does.

    Attributes:
        address: What `open_store` takes to open this storage again; holds no secret.
        largest_bytes: Maximum size of an object; None if objects of any size are written atomically.
        at_once: The best number of objects to read or delete concurrently.
    """

    address: str
    largest_bytes: int | None = None
    at_once = 1

    @abstractmethod
    def __str__(self) -> str:
        """The storage as errors show it."""

    @property
    def name(self) -> str:
        """The name of the folder, within the one that it is in."""
        return str(self).rpartition("/")[2]

    @abstractmethod
    def subfolder(self, name: str) -> Storage:
        """The folder of this name inside, which need not exist. Raises StoreError: the name leads elsewhere."""

    @abstractmethod
    def files(self, after: str = "", before: str = LAST) -> dict[str, int]:
        """Name and size in bytes of each object whose name is between these two, in the order of names.

        Empty if the folder does not exist. Of a remote folder only these names are listed, whatever else is there.
        Every object that exists during the whole call is listed. Of one that compaction replaces meanwhile, it or its
        replacement is listed.
        """

    @abstractmethod
    def folders(self) -> list[str]:
        """The names of the folders inside, in order."""

    def files_by_folder(self) -> dict[str, dict[str, int]]:
        """The `files` of each folder inside that has any, in order."""
        return {name: files for name in self.folders() if (files := self.subfolder(name).files())}

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether an object exists. A remote one that was seen once is not asked for again."""

    @abstractmethod
    def open(self, name: str) -> pa.NativeFile:
        """Open an object. A remote one is fetched once in a process, as long as the cache has room for it.

        Raises:
            FileNotFoundError: it does not exist.
            StoreError: it is remote and cannot be read.
        """

    @abstractmethod
    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write a new object atomically; it is durable when this returns. Raises StoreError."""

    @abstractmethod
    def create(self, name: str, content: bytes) -> bool:
        """Write an object only if none has this name, atomically; it is durable when this returns True. Raises
        StoreError.

        Where `honours_create` is False, two callers at the same time may both be told True.

        Args:
            name: Of the object.
            content: Must differ from what any other caller writes: an object with this content is taken for the
                caller's own, of an attempt whose answer was lost.

        Returns:
            Whether the object of this name is the caller's.
        """

    def honours_create(self) -> bool:
        """Whether `create` leaves an existing object alone, found out with an object that is deleted again. Raises
        StoreError.
        """
        name = temporary_name("probe")
        try:
            return self.create(name, b"first") and not self.create(name, b"second") and self.read(name) == b"first"
        finally:
            self.delete(name)

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete an object, if it exists."""

    @abstractmethod
    def is_free(self) -> bool:
        """Whether nothing is here but temporary files of a killed writer."""

    @abstractmethod
    def check_writable(self) -> None:
        """Check, without writing, that a new store can be written here. Raises StoreError."""

    def free_bytes(self) -> int | None:
        """Free space in bytes; None where it has no limit that is known."""
        return None

    @abstractmethod
    def read(self, name: str) -> bytes:
        """An object's current content, past the cache. Raises as `open` does."""

    def owned_rows(self, name: str, rows: pa.Table) -> pa.Table:
        """The rows that count. Of several stores read as one, a trial's rows count in one store only (`trial_id`)."""
        return rows

    def map(self, function: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
        """The function's result for each item, in order; computed concurrently where that is faster."""
        if self.at_once == 1 or len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(self.at_once) as pool:
            return list(pool.map(function, items))


class FolderStorage(Storage):
    """A folder of this machine: written under a temporary name, flushed to the disk, renamed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = str(folder)

    def __str__(self) -> str:
        return self.address

    def subfolder(self, name: str) -> FolderStorage:
        """The folder of this name inside."""
        return FolderStorage(self._path(name))

    def _path(self, name: str) -> Path:
        try:
            return path_inside(self.folder, name)
        except NotPlainError as error:
            raise StoreError(f"{self}: {quote(name)} is {error.strerror}.") from error

    def files(self, after: str = "", before: str = LAST) -> dict[str, int]:
        """Name and size of each file.

        A file that is created or deleted while its folder is read may or may not be listed: compaction may add the new
        part behind the reader's position and delete an old one ahead of it. So the folder is read twice: whatever
        replaced a part that vanished during the first reading exists before the second begins.
        """
        return dict(sorted(item for item in (self._listing() | self._listing()).items() if after < item[0] < before))

    def _listing(self) -> dict[str, int]:
        sizes = {}
        for entry in self._entries():
            if not entry.name.startswith("."):
                with self._explain_refusal(), contextlib.suppress(FileNotFoundError):  # it vanished meanwhile
                    if not entry.is_dir():  # a pipe or device is refused where it is read, not left out in silence
                        sizes[entry.name] = entry.stat().st_size
        return sizes

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        is_none = contextlib.suppress(FileNotFoundError, NotADirectoryError)
        with self._explain_refusal(), is_none, os.scandir(self.folder) as entries:
            yield from entries

    def folders(self) -> list[str]:
        """The names of the folders inside."""
        with self._explain_refusal():
            return sorted(entry.name for entry in self._entries() if is_plain(entry.name) and entry.is_dir())

    def exists(self, name: str) -> bool:
        """Whether a file exists."""
        with self._explain_refusal():
            return self._path(name).is_file()

    def open(self, name: str) -> pa.NativeFile:
        """Open a file."""
        with self._explain_refusal(name):
            stamp_of(self._path(name), _largest_size(name))  # opening a pipe would wait
            return pa.OSFile(str(self._path(name)))

    def read(self, name: str) -> bytes:
        """The file's content. Without hard links, a file that is being created may show its beginning only."""
        with self._explain_refusal(name), open_plain(self._path(name), _largest_size(name)) as file:
            return file.read()

    @contextlib.contextmanager
    def _explain_refusal(self, name: str = "", action: str = "read") -> Iterator[None]:
        """Raise AccessError where the block may not do this to a file of this name, or to the folder."""
        try:
            yield
        except PermissionError as error:
            raise AccessError(f"{self}/{name}".rstrip("/"), action) from error

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write a file under a temporary name and rename it; its bytes, and then its name, are flushed to the disk."""
        path = self._path(name)
        with self._flushed_file(name, content) as temporary:
            temporary.replace(path)

    def create(self, name: str, content: bytes) -> bool:
        """Write a file under a temporary name and link it, which fails if the name exists.

        On a file system without hard links it is created under its name, and others may see it before its content.
        """
        path = self._path(name)
        if not self.exists(name):
            with self._flushed_file(name, content) as temporary, contextlib.suppress(FileExistsError):
                _link(temporary, path)
                return True
        with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
            return self.read(name) == content  # NFS may lose a reply; the repeated request then says that it exists
        return False

    @contextlib.contextmanager
    def _flushed_file(self, name: str, content: bytes | pa.Buffer) -> Iterator[Path]:
        """A new file under a temporary name, flushed to the disk; so are all names once the caller has given it one."""
        temporary = self._path(temporary_name(name))
        try:
            new = list(takewhile(lambda folder: not folder.exists(), (self.folder, *self.folder.parents)))
            self.folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                _write_through(file, content)
            yield temporary
            temporary.unlink(missing_ok=True)
            for folder in (self.folder, *(new_folder.parent for new_folder in new)):
                _flush_names(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            if isinstance(error, PermissionError):
                raise AccessError(self, "written") from error
            raise StoreError(
                f"{self}: cannot be written ({error.strerror}). What was committed before is intact."
            ) from error

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with self._explain_refusal(name, "deleted"):
            self._path(name).unlink(missing_ok=True)

    def is_free(self) -> bool:
        """Whether the folder is absent, or empty but for temporary files."""
        with self._explain_refusal():
            if not self.folder.exists():
                return True
            return self.folder.is_dir() and all(TEMPORARY_FILE.fullmatch(path.name) for path in self.folder.iterdir())

    def free_bytes(self) -> int:
        """Free space of the file system that the folder is in."""
        return shutil.disk_usage(self._existing_folder()).free

    def _existing_folder(self) -> Path:
        with self._explain_refusal():
            return next(folder for folder in (self.folder, *self.folder.parents) if folder.exists())

    def check_writable(self) -> None:
        """Check that the folder, or the one it will be created in, is writable."""
        if not os.access(self._existing_folder(), os.W_OK):
            raise StoreError(f"{self}: cannot be written. Give another folder with --store.")


def _largest_size(name: str) -> int:
    return MOST_JSON if name.endswith(".json") else MOST_CONTENT


Owners = Mapping[str, Mapping[str, int]]  # by folder: trial id -> the number of the store whose rows count


class SeveralStorages(Storage):
    """Folders of the same name in several stores, which are read as one; of one name the first object.

    A trial counts from one store: the first that has it complete, else the first that has most attempts at it. Rows
    that others have of it are left out, so that attempts of one number in two stores never mix.
    """

    def __init__(self, storages: Sequence[Storage], owners: Owners, folder: str = "") -> None:
        self._storages, self._owners, self._folder = tuple(storages), owners, folder
        self.address = ",".join(storage.address for storage in storages)
        self.at_once = max(storage.at_once for storage in storages)

    def __str__(self) -> str:
        return ",".join(map(str, self._storages))

    def subfolder(self, name: str) -> SeveralStorages:
        """The folders of this name inside."""
        return SeveralStorages([storage.subfolder(name) for storage in self._storages], self._owners, name)

    def files(self, after: str = "", before: str = LAST) -> dict[str, int]:
        """Name and size of each object."""
        listed = [storage.files(after, before) for storage in reversed(self._storages)]
        return dict(sorted({name: size for files in listed for name, size in files.items()}.items()))

    def folders(self) -> list[str]:
        """The names of the folders inside."""
        return sorted({name for storage in self._storages for name in storage.folders()})

    def exists(self, name: str) -> bool:
        """Whether any has an object."""
        return any(storage.exists(name) for storage in self._storages)

    def open(self, name: str) -> pa.NativeFile:
        """Open the first store's object of this name."""
        return pa.BufferReader(self.read(name))

    def read(self, name: str) -> bytes:
        """The content of the first store's object of this name."""
        return self._storages[self._place(name)].read(name)

    def _place(self, name: str) -> int:
        """The number of the first store that has an object. Raises FileNotFoundError."""
        for number, storage in enumerate(self._storages):
            if storage.exists(name):
                return number
        raise FileNotFoundError(f"{self}/{name}")

    def owned_rows(self, name: str, rows: pa.Table) -> pa.Table:
        """The rows whose `trial_id` counts from the store that has this part, or from none yet."""
        owner_of = self._owners.get(self._folder)
        if owner_of is None:
            return rows
        here = self._place(name)
        counts = [owner_of.get(trial_id, here) == here for trial_id in rows["trial_id"].to_pylist()]
        return rows.filter(pa.array(counts, pa.bool_()))

    def _refuse(self) -> NoReturn:
        raise StoreError(f"{self}: several stores are only read. Give one with --store.")

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Raise StoreError: nothing is written."""
        self._refuse()

    def create(self, name: str, content: bytes) -> bool:
        """Raise StoreError."""
        self._refuse()

    def delete(self, name: str) -> None:
        """Raise StoreError."""
        self._refuse()

    def check_writable(self) -> None:
        """Raise StoreError."""
        self._refuse()

    def is_free(self) -> bool:
        """They are stores."""
        return False


def temporary_files(storage: Storage, *, without: Collection[str]) -> list[Path]:
    """Files that killed writers left in the folders inside, except folders of some names. Object stores have none."""
    if not isinstance(storage, FolderStorage):
        return []
    found = []
    for folder, inside, names in os.walk(storage.folder):
        if Path(folder) == storage.folder:  # others may write here, and in some folders, before they are present
            inside[:] = [name for name in inside if name not in without]
        else:
            found += [Path(folder) / name for name in filter(TEMPORARY_FILE.fullmatch, names)]
    return found


def temporary_name(name: str) -> str:
    """A name for this object while it is private to its writer."""
    return f".{name}.{uuid.uuid4().hex[:8]}.tmp"


def _write_through(file: BinaryIO, content: bytes | pa.Buffer) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _link(file: Path, path: Path) -> None:
    """Give a file a second name; FileExistsError if it is taken."""
    try:
        path.hardlink_to(file)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with path.open("xb") as copy:
            try:
                _write_through(copy, read_bytes(file, MOST_CONTENT))
            except OSError:
                path.unlink()
                raise


def _flush_names(folder: Path) -> None:
    """Flush a folder's entries to disk: a power cut may undo a rename that was not flushed."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot flush folders
            raise
    finally:
        os.close(opened)
