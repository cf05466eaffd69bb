"""Storage on S3, Google Cloud Storage or HDFS, through pyarrow.

S3 and Google Cloud Storage guarantee: an object exists completely once its PUT is acknowledged, an aborted PUT leaves
nothing, of two PUTs under one name the last wins, and a listing contains all that existed when it began, in the order
of names. HDFS shows a file while it is being written, so there a temporary one is renamed.

pyarrow uploads an object of more than 10 MiB in pieces, and after an error it may complete the upload with those that
arrived, or with none. So no object is larger than `LARGEST_BYTES`, and an empty one counts as absent.

A write whose answer is lost is sent again under the same name with the same content, which changes nothing. If
the first one arrives late, after the part was compacted and deleted, its rows are in two parts; readers drop one.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
from pyarrow import fs

from orchestrator.storage.address import Address
from orchestrator.storage.connection import ACCESS, Connection
from orchestrator.storage.object_cache import CACHE, ObjectCache
from orchestrator.storage.storage import Storage
from trials.errors import StoreError

T = TypeVar("T")

LARGEST_BYTES = 8 * 2**20


class ObjectStorage(Storage):
    """A prefix of an object store, or a folder of HDFS."""

    at_once = 8  # the connections that pyarrow opens

    def __init__(
        self, connection: Connection, address: Address, *, cache: ObjectCache = CACHE, inside: tuple[str, ...] = ()
    ) -> None:
        self.address = str(address)
        self._connection, self._root, self._cache, self._inside = connection, address, cache, inside
        self._renames = address.scheme == "hdfs"
        self.largest_bytes = None if self._renames else LARGEST_BYTES
        host = "" if self._renames else address.host
        self._path = "/".join([host, *filter(None, (address.path, *inside))])
        self._seen: set[str] = set()

    def __str__(self) -> str:
        return "/".join((self._root.without_options, *self._inside))

    def at(self, name: str) -> ObjectStorage:
        """The prefix of this name below this one."""
        return ObjectStorage(self._connection, self._root, cache=self._cache, inside=(*self._inside, name))

    def files(self) -> dict[str, int]:
        """Name and bytes of each object."""
        found = {info.base_name: info.size for info in self._listed() if info.type == fs.FileType.File and info.size}
        return {name: found[name] for name in sorted(found) if not name.startswith(".")}

    def folders(self) -> list[str]:
        """The names of the prefixes below this one."""
        return sorted(info.base_name for info in self._listed() if info.type == fs.FileType.Directory)

    def _listed(self) -> list[fs.FileInfo]:
        selector = fs.FileSelector(self._path, allow_not_found=True)
        try:
            return self._ask(lambda: list(self._filesystem.get_file_info(selector)), "read")
        except FileNotFoundError:
            return []

    def exists(self, name: str) -> bool:
        """Whether the object exists; once it does, the service is not asked again."""
        if name not in self._seen:
            info = self._ask(lambda: self._filesystem.get_file_info(self._named(name)), "read")
            if info.type != fs.FileType.File or not info.size:
                return False
            self._seen.add(name)
        return True

    def open(self, name: str) -> pa.NativeFile:
        """Open an object, in memory."""
        content = self._cache.get(self._key(name))
        if content is None:
            content = self._ask(lambda: self._fetched(name), "read")
            self._cache.put(self._key(name), content)
        return pa.BufferReader(content)

    def read(self, name: str) -> bytes:
        """The object's current content."""
        content: bytes = self._ask(lambda: self._fetched(name), "read").to_pybytes()
        return content

    def _fetched(self, name: str) -> pa.Buffer:
        # From S3 one read of known length, as each piece of a stream is a request; from Google a verified stream.
        if self._root.scheme == "gs":
            with self._filesystem.open_input_stream(self._named(name)) as stream:
                content = pa.py_buffer(stream.read())
        else:
            with self._filesystem.open_input_file(self._named(name)) as file:
                content = file.read_buffer()
                if content.size != file.size():
                    raise OSError(f"{content.size} of {file.size()} bytes received")
        if not content.size:
            raise FileNotFoundError(name)
        return content

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write an object in one request, with retries."""
        try:
            self._ask(lambda: self._put(name, content), "written")
        except FileNotFoundError:
            raise StoreError(f"{self}: cannot be written (no such bucket). Create it first.") from None
        self._seen.add(name)

    def _put(self, name: str, content: bytes | pa.Buffer) -> None:
        if not self._renames:
            self._upload(self._named(name), content)
        elif not self.exists(name):  # it does if only the answer to the rename was lost
            temporary = self._named(f".{name}.{uuid.uuid4().hex[:8]}.tmp")
            self._filesystem.create_dir(self._path, recursive=True)
            self._upload(temporary, content)
            self._filesystem.move(temporary, self._named(name))

    def _upload(self, path: str, content: bytes | pa.Buffer) -> None:
        # Not in a `with` block, which would close, and so complete, an upload whose write has failed.
        stream = self._filesystem.open_output_stream(path)
        stream.write(content)
        stream.close()

    def delete(self, name: str) -> None:
        """Delete an object, if it exists."""
        self._cache.drop(self._key(name))
        self._seen.discard(name)
        with contextlib.suppress(FileNotFoundError):
            self._ask(lambda: self._filesystem.delete_file(self._named(name)), "written")

    def is_free(self) -> bool:
        """Whether no object has this prefix."""
        return not any(info.type == fs.FileType.Directory or info.size for info in self._listed())

    def check_writable(self) -> None:
        """Check that the bucket exists."""
        if not self._renames:
            info = self._ask(lambda: self._filesystem.get_file_info(self._root.host), "read")
            if info.type == fs.FileType.NotFound:
                raise StoreError(f"{self}: there is no bucket {self._root.host!r}. Create it first.")

    @property
    def _filesystem(self) -> fs.FileSystem:
        return self._connection.filesystem

    def _named(self, name: str) -> str:
        return f"{self._path}/{name}"

    def _key(self, name: str) -> str:
        return f"{self._connection.service} {self._named(name)}"

    def _ask(self, action: Callable[[], T], doing: str) -> T:
        def describe(reason: str, is_ours: bool) -> str:
            way_out = f"Access needs {ACCESS[self._root.scheme]}" if is_ours else "Try again when it answers"
            return f"{self}: cannot be {doing} ({reason}). What was committed before is intact. {way_out}."

        return self._connection.ask(action, describe)
