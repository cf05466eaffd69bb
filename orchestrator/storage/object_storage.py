"""Storage on S3 or Google Cloud Storage, through obstore.

Both guarantee: an object exists completely once its PUT is acknowledged, an aborted PUT leaves nothing, of two PUTs
under one name the last wins (the first, if there is a condition), and a listing contains all that existed before it.

A write whose answer is lost is sent again under the same name with the same content, which changes nothing. If
the first one arrives late, after the part was compacted and deleted, its rows are in two parts; readers drop one.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from cachetools import LRUCache
from obstore.exceptions import AlreadyExistsError

from orchestrator.storage.address import Address
from orchestrator.storage.connection import ACCESS, NO_PATH, Connection, Service
from orchestrator.storage.storage import LAST, TEMPORARY_FILE, Storage
from trials.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore import ListResult, ObjectMeta

T = TypeVar("T")

LARGEST_BYTES = 8 * 2**20  # an object is one request, which has to end in `REQUEST_S`
CACHE_BYTES = 256 * 2**20
PAGE = 1_000  # names in an answer of S3 and Google


class ObjectCache:
    """What this process has read from object stores: objects never change, so each is fetched once."""

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._objects: LRUCache[str, bytes] = LRUCache(limit_bytes, getsizeof=len)
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """The object, if it is in the cache."""
        with self._lock:
            return self._objects.get(key)

    def put(self, key: str, content: bytes) -> None:
        """Add an object, if it fits."""
        with self._lock, contextlib.suppress(ValueError):
            self._objects[key] = content

    def drop(self, key: str) -> None:
        """Remove an object."""
        with self._lock:
            self._objects.pop(key, None)


CACHE = ObjectCache()  # shared by the whole process


def halfway(low: str, high: str) -> str:
    """A text after `low` and, of printable ASCII, before `high`: the middle of where they differ by two characters."""
    start = ""
    for n in range(max(len(low), len(high)) + 1):
        first = ord(low[n]) if n < len(low) else 0x20
        last = min(ord(high[n]), 0x7F) if n < len(high) else 0x7F
        if last - first > 1:
            return start + chr((first + last) // 2)
        start += chr(first)
        if first < last:
            high = ""
    return start + "O"


class ObjectStorage(Storage):
    """A prefix of an object store."""

    at_once = 8
    largest_bytes = LARGEST_BYTES

    def __init__(
        self, connection: Connection, address: Address, *, cache: ObjectCache = CACHE, inside: tuple[str, ...] = ()
    ) -> None:
        self.address = str(address)
        self._connection, self._root, self._cache, self._inside = connection, address, cache, inside
        self._path = "/".join(filter(None, (address.path, *inside)))
        self._seen: set[str] = set()

    def __str__(self) -> str:
        return "/".join((self._root.without_options, *self._inside))

    def at(self, name: str) -> ObjectStorage:
        """The prefix of this name below this one."""
        return ObjectStorage(self._connection, self._root, cache=self._cache, inside=(*self._inside, name))

    def files(self, after: str = "", before: str = LAST) -> dict[str, int]:
        """Name and bytes of each object, but for empty ones, with which other programs mark folders."""
        if (after, before) == ("", LAST):
            sizes = {_name(entry["path"]): entry["size"] for entry in self._listed()["objects"]}
        else:
            sizes = self._below(after, before)
            sizes.pop(before, None)
        return _shown(sizes)

    def inside(self) -> dict[str, dict[str, int]]:
        """The files of each folder inside: from one listing, or of many names from several at a time."""
        listed, ranges = dict[str, int](), [("", LAST)]
        while ranges:
            pages = self.each(lambda bounds: self._below(*bounds, PAGE), ranges)
            full = [(max(page), before) for page, (_, before) in zip(pages, ranges, strict=True) if len(page) == PAGE]
            halves = [(last, halfway(last, before), before) for last, before in full]
            ranges = [bounds for last, middle, before in halves for bounds in ((last, middle), (middle, before))]
            for page in pages:
                listed |= page
        folders: dict[str, dict[str, int]] = {}
        for path, size in listed.items():
            folder, slash, name = path.partition("/")
            if slash:
                folders.setdefault(folder, {})[name] = size
        return {folder: files for folder in sorted(folders) if (files := _shown(folders[folder]))}

    def _below(self, after: str, before: str, most: int | None = None) -> dict[str, int]:
        """Path below this prefix and bytes of each object after one name and up to another, or of the first ones; no
        page beyond is asked for.
        """

        def listed(bucket: Service) -> dict[str, int]:
            sizes, start = dict[str, int](), f"{self._path}/".removeprefix("/")
            for page in bucket.list(self._path, offset=f"{start}{after}" if after else None):
                for entry in page:
                    if (path := entry["path"].removeprefix(start)) > before:
                        return sizes
                    sizes[path] = entry["size"]
                    if len(sizes) == most:
                        return sizes
            return sizes

        try:
            return self._ask(listed, "read")
        except FileNotFoundError:
            return {}

    def folders(self) -> list[str]:
        """The names of the prefixes below this one."""
        return sorted(_name(path) for path in self._listed()["common_prefixes"])

    def _listed(self) -> ListResult[Sequence[ObjectMeta]]:
        try:
            return self._ask(lambda bucket: bucket.list_with_delimiter(self._path), "read")
        except FileNotFoundError:
            return {"objects": [], "common_prefixes": []}

    def exists(self, name: str) -> bool:
        """Whether the object exists; once it does, the service is not asked again."""
        if name not in self._seen:
            try:
                self._ask(lambda bucket: bucket.head(self._named(name)), "read")
            except FileNotFoundError:
                return False
            self._seen.add(name)
        return True

    def open(self, name: str) -> pa.NativeFile:
        """Open an object, in memory."""
        content = self._cache.get(self._key(name))
        if content is None:
            content = self.read(name)
            self._cache.put(self._key(name), content)
        return pa.BufferReader(content)

    def read(self, name: str) -> bytes:
        """The object's current content."""
        return self._ask(lambda bucket: bytes(bucket.get(self._named(name)).bytes()), "read")

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write an object in one request, with retries."""
        octets = memoryview(content).cast("B")  # pyarrow's are signed
        self._put(lambda bucket: bucket.put(self._named(name), octets, use_multipart=False))
        self._seen.add(name)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object in one request that S3 and Google refuse if there is one."""
        try:
            self._put(lambda bucket: bucket.put(self._named(name), content, mode="create"))
        except AlreadyExistsError:
            with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile, or is just being created
                return self.read(name) == content  # of a request that is sent again the first may have succeeded
            return False
        return True

    def _put(self, action: Callable[[Service], object]) -> None:
        try:
            self._ask(action, "written")
        except FileNotFoundError:
            raise StoreError(f"{self}: cannot be written (no such bucket). Create it first.") from None

    def delete(self, name: str) -> None:
        """Delete an object, if it exists."""
        self._cache.drop(self._key(name))
        self._seen.discard(name)
        with contextlib.suppress(FileNotFoundError):
            self._ask(lambda bucket: bucket.delete(self._named(name)), "written")

    def is_free(self) -> bool:
        """Whether no object has this prefix."""
        listed = self._listed()
        names = [_name(entry["path"]) for entry in listed["objects"] if entry["size"]]
        return not listed["common_prefixes"] and all(TEMPORARY_FILE.fullmatch(name) for name in names)

    def check_writable(self) -> None:
        """Check that the bucket exists."""
        try:
            self._ask(lambda bucket: bucket.list_with_delimiter(self._path), "read")
        except FileNotFoundError:
            host = self._root.host
            raise StoreError(f"{self}: there is no bucket {host!r}. Create it first.") from None

    def _named(self, name: str) -> str:
        return f"{self._path}/{name}".removeprefix("/")

    def _key(self, name: str) -> str:
        return f"{self._connection.service} {self._named(name)}"

    def _ask(self, action: Callable[[Service], T], doing: str) -> T:
        def describe(reason: str, is_ours: bool) -> str:
            way_out = f"Access needs {ACCESS[self._root.scheme]}" if is_ours else "Try again when it answers"
            if NO_PATH in reason:
                way_out = "Delete that object, whose name is no path"
            return f"{self}: cannot be {doing} ({reason}). What was committed before is intact. {way_out}."

        return self._connection.ask(action, describe)


def _shown(sizes: dict[str, int]) -> dict[str, int]:
    return {
        name: sizes[name] for name in sorted(sizes) if sizes[name] and "/" not in name and name[:1] not in ("", ".")
    }


def _name(path: str) -> str:
    return path.rpartition("/")[2]
