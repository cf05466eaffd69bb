"""A place on S3, Google Cloud Storage or HDFS, through pyarrow.

What is relied on, of S3 and Google Cloud Storage: a PUT that is answered is there as a whole, one that is cut leaves
nothing, the last of two under one name wins, and a listing shows all that was there when it began, in the order of
names. HDFS shows a file while it is written, so there a temporary one is renamed.

pyarrow sends an object of more than 10 MiB in pieces, and where it cannot it may finish the upload with those that
arrived, or with none. So no object is larger than `LARGEST_BYTES`, and one without bytes counts as not there.

A write whose answer is lost is sent again under the same name with the same content, which changes nothing. Should
the first one arrive late, after the part was compacted and taken away, its rows stand in two parts; readers drop one.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pyarrow as pa
from pyarrow import fs

from orchestrator.store.address import Address, endpoint, scrubbed
from orchestrator.store.place import Place
from trials.errors import StoreError

T = TypeVar("T")

LARGEST_BYTES = 8 * 2**20
CACHE_BYTES = 256 * 2**20
PATIENCE_S = 60.0  # how long a place that once answered is asked again; the last attempt may take as long again
FIRST_PATIENCE_S = 10.0  # one that never did is more likely a wrong address
CONNECT_S, REQUEST_S = 5.0, 10.0  # a request is given up when so long nothing was heard
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0
_LONGEST_MESSAGE = 400
_LASTING = re.compile(
    r"ACCESS_DENIED|NO_SUCH_BUCKET|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN_ID|EXPIRED_TOKEN"
    r"|InvalidAccessKeyId|SignatureDoesNotMatch|NoSuchBucket|ExpiredToken|InvalidBucketName"
    r"|HTTP status (?:3\d\d|4(?!08|25|29)\d\d)|PERMISSION_DENIED|UNAUTHENTICATED|lib(?:jvm|hdfs)"
)
_ACCESS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws/credentials, and AWS_REGION",
    "gs": "the file that GOOGLE_APPLICATION_ACCESS names",
    "hdfs": "JAVA_HOME, HADOOP_HOME and CLASSPATH (`hadoop classpath --glob`), or the Kerberos ticket",
}


class Connection:
    """A filesystem that is asked again while what it answers may pass.

    Attributes:
        filesystem: pyarrow's.
        service: Whose paths they are; two services may have the same ones.
        patience_s: How long one request is repeated.
    """

    def __init__(self, filesystem: fs.FileSystem, service: str, patience_s: float = PATIENCE_S) -> None:
        self.filesystem, self.service, self.patience_s = filesystem, service, patience_s
        self._answered = False

    def ask(self, action: Callable[[], T], sorry: Callable[[str, bool], str]) -> T:
        """The action's result; after `patience_s` of failures, or one that will not pass, an error.

        Args:
            action: Sends a request; may be called many times.
            sorry: The error's message, of what the last attempt said and whether the fault is likely with who asks.

        Raises:
            FileNotFoundError: the object is not there.
            StoreError: as `sorry` words it, without secrets and without the library's own error behind it.
        """
        patience = self.patience_s if self._answered else min(FIRST_PATIENCE_S, self.patience_s)
        deadline, pause = time.monotonic() + patience, _FIRST_PAUSE_S
        while True:
            try:
                result = action()
            except FileNotFoundError:
                self._answered = True
                raise
            except (OSError, pa.ArrowException) as error:
                message = str(error)
                lasting = not isinstance(error, OSError) or _LASTING.search(message) is not None
                if lasting or time.monotonic() + pause > deadline:
                    raise StoreError(sorry(_short(message), lasting or not self._answered)) from None
            else:
                self._answered = True
                return result
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # many clients should not come back at once
            pause = min(2 * pause, _LONGEST_PAUSE_S)


class Cache:
    """Objects that are never changed, by address; those least recently used go first.

    Attributes:
        limit_bytes: Of all objects together.
    """

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._objects: OrderedDict[str, pa.Buffer] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> pa.Buffer | None:
        """The object, if it is still held."""
        with self._lock:
            if key in self._objects:
                self._objects.move_to_end(key)
            return self._objects.get(key)

    def put(self, key: str, content: pa.Buffer) -> None:
        """Hold an object, if it fits."""
        self.drop(key)
        with self._lock:
            if content.size <= self.limit_bytes:
                self._objects[key] = content
                self.held_bytes += content.size
            while self.held_bytes > self.limit_bytes:
                self.held_bytes -= self._objects.popitem(last=False)[1].size

    def drop(self, key: str) -> None:
        """Forget an object."""
        with self._lock:
            if key in self._objects:
                self.held_bytes -= self._objects.pop(key).size


CACHE = Cache()  # of this process


class RemotePlace(Place):
    """A prefix of an object store, or a folder of HDFS."""

    at_once = 8  # the connections that pyarrow opens

    def __init__(
        self, connection: Connection, address: Address, *, cache: Cache = CACHE, inside: tuple[str, ...] = ()
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

    def at(self, name: str) -> RemotePlace:
        """The prefix of this name inside."""
        return RemotePlace(self._connection, self._root, cache=self._cache, inside=(*self._inside, name))

    def files(self) -> dict[str, int]:
        """Name and bytes of each object."""
        found = {info.base_name: info.size for info in self._listed() if info.type == fs.FileType.File and info.size}
        return {name: found[name] for name in sorted(found) if not name.startswith(".")}

    def folders(self) -> list[str]:
        """The names of the prefixes inside."""
        return sorted(info.base_name for info in self._listed() if info.type == fs.FileType.Directory)

    def _listed(self) -> list[fs.FileInfo]:
        selector = fs.FileSelector(self._path, allow_not_found=True)
        try:
            return self._ask(lambda: list(self._filesystem.get_file_info(selector)), "read")
        except FileNotFoundError:
            return []

    def exists(self, name: str) -> bool:
        """Whether the object is there; one that was there once is not asked for again."""
        if name not in self._seen:
            info = self._ask(lambda: self._filesystem.get_file_info(self._named(name)), "read")
            if info.type != fs.FileType.File or not info.size:
                return False
            self._seen.add(name)
        return True

    def open(self, name: str) -> pa.NativeFile:
        """Open an object in memory."""
        content = self._cache.get(self._key(name))
        if content is None:
            content = self._ask(lambda: self._fetched(name), "read")
            self._cache.put(self._key(name), content)
        return pa.BufferReader(content)

    def read(self, name: str) -> bytes:
        """What the object contains now."""
        content: bytes = self._ask(lambda: self._fetched(name), "read").to_pybytes()
        return content

    def _fetched(self, name: str) -> pa.Buffer:
        # By its length from S3, where each piece of a stream is a request; as one stream from Google, which checks it.
        if self._root.scheme == "gs":
            with self._filesystem.open_input_stream(self._named(name)) as stream:
                content = pa.py_buffer(stream.read())
        else:
            with self._filesystem.open_input_file(self._named(name)) as file:
                content = file.read_buffer()
                if content.size != file.size():
                    raise OSError(f"{content.size} of {file.size()} bytes came")
        if not content.size:
            raise FileNotFoundError(name)
        return content

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write an object in one request, again until it is there or patience ends."""
        try:
            self._ask(lambda: self._sent(name, content), "written")
        except FileNotFoundError:
            raise StoreError(f"{self}: cannot be written (no such bucket). Make it first.") from None
        self._seen.add(name)

    def _sent(self, name: str, content: bytes | pa.Buffer) -> None:
        if not self._renames:
            self._streamed(self._named(name), content)
        elif not self.exists(name):  # it is, where only the answer to the renaming was lost
            temporary = self._named(f".{name}.{uuid.uuid4().hex[:8]}.tmp")
            self._filesystem.create_dir(self._path, recursive=True)
            self._streamed(temporary, content)
            self._filesystem.move(temporary, self._named(name))

    def _streamed(self, path: str, content: bytes | pa.Buffer) -> None:
        # Without `with`, which would close, and so finish, a stream whose write has failed.
        stream = self._filesystem.open_output_stream(path)
        stream.write(content)
        stream.close()

    def delete(self, name: str) -> None:
        """Take an object away, if it is there."""
        self._cache.drop(self._key(name))
        self._seen.discard(name)
        with contextlib.suppress(FileNotFoundError):
            self._ask(lambda: self._filesystem.delete_file(self._named(name)), "written")

    def is_free(self) -> bool:
        """Whether nothing has this prefix."""
        return not any(info.type == fs.FileType.Directory or info.size for info in self._listed())

    def check_writable(self) -> None:
        """Tell whether the bucket is there."""
        if not self._renames:
            info = self._ask(lambda: self._filesystem.get_file_info(self._root.host), "read")
            if info.type == fs.FileType.NotFound:
                raise StoreError(f"{self}: there is no bucket {self._root.host!r}. Make it first.")

    @property
    def _filesystem(self) -> fs.FileSystem:
        return self._connection.filesystem

    def _named(self, name: str) -> str:
        return f"{self._path}/{name}"

    def _key(self, name: str) -> str:
        return f"{self._connection.service} {self._named(name)}"

    def _ask(self, action: Callable[[], T], doing: str) -> T:
        def sorry(said: str, ours: bool) -> str:
            way_out = f"Access is by {_ACCESS[self._root.scheme]}" if ours else "Try again when it answers"
            return f"{self}: cannot be {doing} ({said}). What was committed before is whole. {way_out}."

        return self._connection.ask(action, sorry)


def connect(address: Address) -> Connection:
    """Reach the service of an address; the bucket is not asked for yet.

    Raises:
        ConfigError: a variable of the environment leads nowhere.
        StoreError: what is needed to reach it is not installed or not found.
    """
    made = {"s3": _s3, "gs": _gs, "hdfs": _hdfs}[address.scheme]
    try:
        return Connection(made(address), " ".join(filter(None, (address.scheme, *endpoint(address)))))
    except (OSError, pa.ArrowException) as error:
        said, way_out = _short(str(error)), _ACCESS[address.scheme]
        raise StoreError(f"{address.without_options}: cannot be reached ({said}). Access is by {way_out}.") from None


def _short(message: str) -> str:
    """The first line of what a library says, without secrets; some say the same a hundred times."""
    line = scrubbed(message).partition("\n")[0]
    return line.rstrip(".") if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]}..."


def _s3(address: Address) -> fs.FileSystem:
    host, scheme = endpoint(address)
    region = address.options.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return fs.S3FileSystem(
        endpoint_override=host,
        scheme=scheme,
        region=region or ("us-east-1" if host else fs.resolve_s3_region(address.host)),
        allow_delayed_open=True,  # a small object is one PUT
        background_writes=False,
        connect_timeout=CONNECT_S,
        request_timeout=REQUEST_S,
        retry_strategy=fs.AwsDefaultS3RetryStrategy(max_attempts=3),  # a page of a listing; `ask` repeats the whole
    )


def _gs(address: Address) -> fs.FileSystem:
    host, scheme = endpoint(address)
    return fs.GcsFileSystem(endpoint_override=host, scheme=scheme, retry_time_limit=timedelta(seconds=REQUEST_S))


def _hdfs(address: Address) -> fs.FileSystem:
    user, _, host = address.host.rpartition("@")
    name, _, port = host.partition(":")
    return fs.HadoopFileSystem(name or "default", int(port or (8020 if name else 0)), user=user or None)
