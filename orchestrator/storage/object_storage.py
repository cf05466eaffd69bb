"""Storage on S3 or Google Cloud Storage, through obstore, which finds credentials and retries transient failures.

Both services guarantee that an object is complete once its PUT is acknowledged, that an aborted PUT leaves nothing,
that of two PUTs under one name the last wins (the first, if conditional), and that listings miss nothing older.

A write whose response is lost is sent again under the same name with the same content, which is harmless. If the first
request arrives late, after the part was compacted and deleted, its rows are in two parts, and readers drop one copy.

Credentials come from the environment or the provider's own files. They are never stored here, and anything that looks
like one is removed from error messages.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import GCSStore, S3Store

from orchestrator.storage.address import Address, endpoint_url, scrub
from orchestrator.storage.storage import LAST, TEMPORARY_FILE, Storage
from trials.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore import ListResult, ObjectMeta
    from obstore.auth.boto3 import Boto3CredentialProvider
    from obstore.store import ClientConfig, GCSConfig, RetryConfig, S3Config

T = TypeVar("T")
Service: TypeAlias = S3Store | GCSStore

LARGEST_BYTES = 8 * 2**20  # an object is one request, which has to end in `REQUEST_S`
CACHE_BYTES = 256 * 2**20  # memory for the parts that were read
PATIENCE_S = 30.0  # how long a request is retried; its last attempt may take another `REQUEST_S`
CONNECT_S, REQUEST_S = 5.0, 20.0  # of one attempt; short, so that `PATIENCE_S` has room for several
_RENEWED_S = 600.0  # boto3 renews credentials that expire sooner, so those it returns are valid for at least this long
ACCESS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile, SSO or role; and AWS_REGION",
    "gs": "the file that GOOGLE_APPLICATION_CREDENTIALS names",
}
_NO_PATH = "invalid path"  # obstore's message for a listing that contains names such as `a//b`
_FAULT = re.compile(rf"status code: 4(?!08|09|25|29)\d\d|Received redirect|{_NO_PATH}|[Cc]redential")  # the caller's
_CAUSE = re.compile(r'(?:message|error): "[^"\n]+"|InvalidCertificate\([\s\w(]*|TimedOut|IncompleteMessage')
_LONGEST_MESSAGE = 400  # characters of a service's error

# Contents by address and name, the most recently used last. Objects never change, so each is fetched once per process.
_cache: OrderedDict[str, bytes] = OrderedDict()
_cache_lock = threading.Lock()


class ObjectStorage(Storage):
    """A prefix of an object store."""

    at_once = 8
    largest_bytes = LARGEST_BYTES

    def __init__(self, address: Address, *, bucket: Service | None = None, inside: tuple[str, ...] = ()) -> None:
        """Nothing is requested from the bucket yet. Raises StoreError: there are no credentials."""
        self.address = str(address)
        self._root, self._inside = address, inside
        self._bucket = _connect(address) if bucket is None else bucket
        self._path = "/".join(filter(None, (address.path, *inside)))
        self._seen: set[str] = set()

    def __str__(self) -> str:
        return "/".join((self._root.without_options, *self._inside))

    def subfolder(self, name: str) -> ObjectStorage:
        """The prefix of this name below this one."""
        return ObjectStorage(self._root, bucket=self._bucket, inside=(*self._inside, name))

    def files(self, after: str = "", before: str = LAST) -> dict[str, int]:
        """Size in bytes of each object by name, without the empty objects by which other programs mark folders."""
        if (after, before) == ("", LAST):
            return _visible_files({_name(entry["path"]): entry["size"] for entry in self._listing()["objects"]})
        sizes = self._below(after, before)
        sizes.pop(before, None)
        return _visible_files(sizes)

    def files_by_folder(self) -> dict[str, dict[str, int]]:
        """The files of each folder inside, from one listing."""
        folders: dict[str, dict[str, int]] = {}
        for path, size in self._below("", LAST).items():
            folder, slash, name = path.partition("/")
            if slash:
                folders.setdefault(folder, {})[name] = size
        return {folder: files for folder in sorted(folders) if (files := _visible_files(folders[folder]))}

    def _below(self, after: str, before: str) -> dict[str, int]:
        """Size in bytes by path below this prefix, of the objects after `after` and up to `before`; the listing stops
        at the first page that goes beyond.
        """

        def list_files() -> dict[str, int]:
            sizes, start = dict[str, int](), f"{self._path}/".removeprefix("/")
            for page in self._bucket.list(self._path, offset=f"{start}{after}" if after else None):
                for entry in page:
                    if (path := entry["path"].removeprefix(start)) > before:
                        return sizes
                    sizes[path] = entry["size"]
            return sizes

        try:
            return self._ask(list_files, "read")
        except FileNotFoundError:
            return {}

    def folders(self) -> list[str]:
        """The names of the prefixes below this one."""
        return sorted(_name(path) for path in self._listing()["common_prefixes"])

    def _listing(self) -> ListResult[Sequence[ObjectMeta]]:
        try:
            return self._ask(lambda: self._bucket.list_with_delimiter(self._path), "read")
        except FileNotFoundError:
            return {"objects": [], "common_prefixes": []}

    def exists(self, name: str) -> bool:
        """Whether the object exists; once it does, the service is not asked again."""
        if name not in self._seen:
            try:
                self._ask(lambda: self._bucket.head(self._full_name(name)), "read")
            except FileNotFoundError:
                return False
            self._seen.add(name)
        return True

    def open(self, name: str) -> pa.NativeFile:
        """Open an object whose content is held in memory."""
        key = f"{self.address} {self._full_name(name)}"
        with _cache_lock:
            content = _cache.get(key)
            if content is not None:
                _cache.move_to_end(key)
        if content is None:
            content = self.read(name)
            with _cache_lock:
                _cache[key] = content
                while sum(map(len, _cache.values())) > CACHE_BYTES:
                    _cache.popitem(last=False)
        return pa.BufferReader(content)

    def read(self, name: str) -> bytes:
        """The object's current content."""
        return self._ask(lambda: bytes(self._bucket.get(self._full_name(name)).bytes()), "read")

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write an object in one request, with retries."""
        octets = memoryview(content).cast("B")  # pyarrow's buffers expose signed bytes
        self._put(lambda: self._bucket.put(self._full_name(name), octets, use_multipart=False))
        self._seen.add(name)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object in one request, which the service refuses if the object exists."""
        try:
            self._put(lambda: self._bucket.put(self._full_name(name), content, mode="create"))
        except AlreadyExistsError:
            with contextlib.suppress(FileNotFoundError):  # it has been deleted since, or is being created right now
                return self.read(name) == content  # if so, a first attempt whose response was lost has created it
            return False
        return True

    def _put(self, action: Callable[[], object]) -> None:
        try:
            self._ask(action, "written")
        except FileNotFoundError:
            raise StoreError(f"{self}: cannot be written (no such bucket). Create it first.") from None

    def delete(self, name: str) -> None:
        """Delete an object, if it exists."""
        with _cache_lock:
            _cache.pop(f"{self.address} {self._full_name(name)}", None)
        self._seen.discard(name)
        with contextlib.suppress(FileNotFoundError):
            self._ask(lambda: self._bucket.delete(self._full_name(name)), "written")

    def is_free(self) -> bool:
        """Whether no object has this prefix; empty objects and temporary files do not count."""
        listed = self._listing()
        names = [_name(entry["path"]) for entry in listed["objects"] if entry["size"]]
        return not listed["common_prefixes"] and all(TEMPORARY_FILE.fullmatch(name) for name in names)

    def check_writable(self) -> None:
        """Check that the bucket exists."""
        try:
            self._ask(lambda: self._bucket.list_with_delimiter(self._path), "read")
        except FileNotFoundError:
            host = self._root.host
            raise StoreError(f"{self}: there is no bucket {host!r}. Create it first.") from None

    def _full_name(self, name: str) -> str:
        return f"{self._path}/{name}".removeprefix("/")

    def _ask(self, action: Callable[[], T], doing: str) -> T:
        """The result of a request; `doing` is the verb of the error message, such as "read".

        Raises:
            FileNotFoundError: the object or the bucket does not exist.
            AlreadyExistsError: obstore's own: the object to create exists already.
            StoreError: any other failure; free of secrets, so not chained to the library's error.
        """
        try:
            return action()
        except (FileNotFoundError, AlreadyExistsError) as error:
            raise type(error) from None
        except (BaseError, OSError, ValueError) as error:
            if "status code: 404" in str(error):
                raise FileNotFoundError from None
            reason = _short(str(error))
            way_out = "Try again when it answers"
            if _NO_PATH in reason:
                way_out = "Delete that object, whose name is no path"
            elif isinstance(error, ValueError) or _FAULT.search(str(error)):
                way_out = f"Access needs {ACCESS[self._root.scheme]}"
            what = f"{self}: cannot be {doing} ({reason}). What was committed before is intact."
            raise StoreError(f"{what} {way_out}.") from None


def _connect(address: Address) -> Service:
    """Connect to a bucket. Raises ConfigError, and StoreError: there are no credentials."""
    url = endpoint_url(address)
    client: ClientConfig = {
        "allow_http": True,
        "connect_timeout": timedelta(seconds=CONNECT_S),
        "timeout": timedelta(seconds=REQUEST_S),
    }
    retries: RetryConfig = {"max_retries": 1_000, "retry_timeout": timedelta(seconds=PATIENCE_S)}
    try:
        if address.scheme == "gs":
            google: GCSConfig = {"base_url": url} if url else {}
            return GCSStore(address.host, config=google, client_options=client, retry_config=retries)
        provider = None if "AWS_ACCESS_KEY_ID" in os.environ else _boto3_provider()
        amazon: S3Config = {"disable_bulk_delete": True}  # not every S3 service has it, and objects are deleted singly
        if url:
            amazon["endpoint"] = url
        given = address.options.get("region") or os.environ.get("AWS_REGION")
        amazon["region"] = given or (provider.config.get("region") if provider else None) or "us-east-1"
        return S3Store(
            address.host,
            config=amazon,
            client_options=client,
            retry_config=retries,
            credential_provider=provider,
        )
    except (BaseError, OSError, ValueError) as error:
        reason, way_out = _short(str(error)), ACCESS[address.scheme]
        raise StoreError(f"{address.without_options}: cannot be reached ({reason}). Access needs {way_out}.") from None


def _boto3_provider() -> Boto3CredentialProvider:
    """A provider that finds credentials as the AWS CLI does. Raises ValueError: there are none."""
    from botocore.exceptions import BotoCoreError  # slow to import
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return Boto3CredentialProvider(ttl=timedelta(seconds=_RENEWED_S))
    except BotoCoreError as error:
        raise ValueError(str(error)) from None


def _short(message: str) -> str:
    """A library's message on one line, without secrets but with the cause, which obstore names only in its details."""
    message, _, details = message.partition("\n\nDebug source")
    if "HTTP error" in message:
        message += "".join(": " + " ".join(re.findall(r"[^\s()]+", cause)) for cause in _CAUSE.findall(details)[-1:])
    line = " ".join(re.sub(r"^.*? in [\d.]+\S?s - |<\?xml.*?\?>|</?\w*>", " ", scrub(message)).split())
    return line.rstrip(".") if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]}..."


def _visible_files(sizes: dict[str, int]) -> dict[str, int]:
    return {
        name: sizes[name] for name in sorted(sizes) if sizes[name] and "/" not in name and name[:1] not in ("", ".")
    }


def _name(path: str) -> str:
    return path.rpartition("/")[2]
