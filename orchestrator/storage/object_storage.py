"""Storage on S3 or Google Cloud Storage, through obstore.

Both guarantee: an object exists completely once its PUT is acknowledged, an aborted PUT leaves nothing, of two PUTs
under one name the last wins (the first, if there is a condition), and a listing contains all that existed before it.

A write whose answer is lost is sent again under the same name with the same content, which changes nothing. If
the first one arrives late, after the part was compacted and deleted, its rows are in two parts; readers drop one.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa
from cachetools import LRUCache
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import GCSStore, S3Store

from orchestrator.storage.address import Address, endpoint_url, scrubbed
from orchestrator.storage.storage import LAST, TEMPORARY_FILE, Storage
from trials.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore import ListResult, ObjectMeta
    from obstore.store import ClientConfig, GCSConfig, RetryConfig


# Connections to S3 and Google Cloud Storage that retry transient errors.
#
# boto3 and obstore find the credentials, in the environment and the provider's own files. They are never stored here,
# and error messages are shown without anything that looks like one.

T = TypeVar("T")
Service: TypeAlias = S3Store | GCSStore

PATIENCE_S = 60.0  # for retries, once the service has answered; the last attempt may take as long again
FIRST_PATIENCE_S = 10.0  # before it has, if something refuses: more likely the address is wrong
SILENT_PATIENCE_S = 30.0  # before it has, if nothing answers: names and networks of new containers can take as long
CONNECT_S, REQUEST_S = 5.0, 20.0  # timeouts of one request, which may carry `object_storage.LARGEST_BYTES`
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0
_RENEWED_S = 600.0  # boto3 renews credentials that have less time left, so what it hands out is valid for as long
_LONGEST_MESSAGE = 400
# A status that another attempt does not change; S3 answers 400 to a body that came too slowly.
NO_PATH = "invalid path"  # in the message of obstore about a listing with names such as `a//b`
_PERMANENT = re.compile(
    rf"status code: 4(?!08|09|25|29)\d\d(?!.*RequestTimeout)|Received redirect|{NO_PATH}", re.DOTALL
)
# Of S3, for temporary credentials that have expired (the answer to a HEAD has no words); of boto3 while it renews them.
_EXPIRED = re.compile(r"ExpiredToken|performing HEAD .*status code: 400|External AWS credential provider", re.DOTALL)
_SILENCE = re.compile("TimedOut|timed out")
_CAUSE = re.compile(r'(?:message|error): "[^"\n]+"|InvalidCertificate\([\s\w(]*|TimedOut|IncompleteMessage')
_REGIONS_URL = "https://s3.amazonaws.com"  # says in which region a bucket is, to anybody
ACCESS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws/credentials, and AWS_REGION",
    "gs": "the file that GOOGLE_APPLICATION_CREDENTIALS names",
}
_ANSWERS = (FileNotFoundError, AlreadyExistsError)
_REFUSALS = (PermissionDeniedError, UnauthenticatedError, ValueError)  # the last one: no credentials
_ERRORS = (BaseError, OSError, ValueError)


class Connection:
    """A bucket whose transient errors are retried; credentials that expire are looked for anew.

    Attributes:
        service: Identifies the service and the bucket, as two of them may have the same paths.
        patience_s: How long one request is retried.
    """

    def __init__(self, make: Callable[[], Service], service: str, patience_s: float = PATIENCE_S) -> None:
        self._make = make
        self._bucket, self.service, self.patience_s = make(), service, patience_s
        self._answered = False

    def ask(self, action: Callable[[Service], T], describe: Callable[[str, bool], str]) -> T:
        """The action's result, retried for `patience_s` unless the error is permanent.

        Args:
            action: Sends a request; may be called many times.
            describe: Makes the error message from the last attempt's message and whether the caller is likely at fault.

        Raises:
            FileNotFoundError: the object or the bucket does not exist.
            AlreadyExistsError: of obstore: the object that the action creates exists.
            StoreError: as `describe` words it, without secrets and not chained to the library's own error.
        """
        began, pause, has_expired = time.monotonic(), _FIRST_PAUSE_S, False
        while True:
            try:
                if has_expired:
                    self._bucket = self._make()
                result = action(self._bucket)
            except _ANSWERS as error:
                self._answered = True
                raise type(error) from None
            except _ERRORS as error:
                message = str(error)
                if "status code: 404" in message:
                    raise FileNotFoundError from None
                is_renewing = has_expired and isinstance(error, ValueError)  # the file may be half written
                has_expired = self._answered and (is_renewing or _EXPIRED.search(message) is not None)
                is_permanent = not has_expired and (
                    isinstance(error, _REFUSALS) or _PERMANENT.search(message) is not None
                )
                if is_permanent or time.monotonic() + pause > began + self._patience(message):
                    raise StoreError(describe(_short(message), is_permanent or not self._answered)) from None
            else:
                self._answered = True
                return result
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # so that many clients do not retry at once
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _patience(self, message: str) -> float:
        if self._answered:
            return self.patience_s
        return min(SILENT_PATIENCE_S if _SILENCE.search(message) else FIRST_PATIENCE_S, self.patience_s)


def connect(address: Address) -> Connection:
    """Connect to the service of an address; the bucket is not accessed yet.

    Raises:
        ConfigError: an endpoint variable of the environment is not valid.
        StoreError: there are no credentials, or the bucket's region cannot be found out.
    """
    service = " ".join(filter(None, (address.scheme, endpoint_url(address), address.host)))
    try:
        return Connection(lambda: _s3(address) if address.scheme == "s3" else _gs(address), service)
    except _ERRORS as error:
        reason, way_out = _short(str(error)), ACCESS[address.scheme]
        raise StoreError(f"{address.without_options}: cannot be reached ({reason}). Access needs {way_out}.") from None


def _short(message: str) -> str:
    """A library's message on one line, with the cause that obstore names only in its details, without secrets."""
    message, _, details = message.partition("\n\nDebug source")
    if "HTTP error" in message:
        message += "".join(": " + " ".join(re.findall(r"[^\s()]+", cause)) for cause in _CAUSE.findall(details)[-1:])
    line = " ".join(re.sub(r"^.*? in [\d.]+\S?s - |<\?xml.*?\?>|</?\w*>", " ", scrubbed(message)).split())
    return line.rstrip(".") if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]}..."


def _client() -> ClientConfig:
    return {
        "allow_http": True,
        "connect_timeout": timedelta(seconds=CONNECT_S),
        "timeout": timedelta(seconds=REQUEST_S),
    }


# Of one page of a listing, as `ask` retries the whole listing.
_RETRIES: RetryConfig = {"max_retries": 2, "backoff": {"init_backoff": timedelta(seconds=_FIRST_PAUSE_S)}}


def _s3(address: Address) -> S3Store:
    from botocore.exceptions import BotoCoreError  # slow, and of no use to Google
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        provider = Boto3CredentialProvider(ttl=timedelta(seconds=_RENEWED_S))
    except BotoCoreError as error:
        raise ValueError(str(error)) from None
    url = endpoint_url(address)
    region = address.options.get("region") or os.environ.get("AWS_REGION") or provider.config.get("region")
    return S3Store(
        address.host,
        aws_endpoint_url_s3=url or "",
        region=region or ("us-east-1" if url else _region(address.host)),
        credential_provider=provider,
        disable_bulk_delete=True,  # not every S3 has it, and we delete one by one
        client_options=_client(),
        retry_config=_RETRIES,
    )


def _region(bucket: str) -> str:
    """The region of a bucket of Amazon's. Raises OSError."""
    request = urllib.request.Request(f"{_REGIONS_URL}/{bucket}", method="HEAD")  # noqa: S310  # https only
    try:
        with urllib.request.urlopen(request, timeout=CONNECT_S) as answer:  # noqa: S310
            headers = answer.headers
    except urllib.error.HTTPError as error:  # a bucket that is not public, or elsewhere
        headers = error.headers
    return str(headers.get("x-amz-bucket-region", "us-east-1"))


def _gs(address: Address) -> GCSStore:
    url = endpoint_url(address)
    config: GCSConfig = {"base_url": url} if url else {}
    return GCSStore(address.host, config=config, client_options=_client(), retry_config=_RETRIES)


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
