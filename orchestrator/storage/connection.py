"""Connections to S3 and Google Cloud Storage, whose transient errors obstore retries.

boto3 and obstore find the credentials, in the environment and the provider's own files. They are never stored here,
and error messages are shown without anything that looks like one.
"""

from __future__ import annotations

import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import GCSStore, S3Store

from orchestrator.storage.address import Address, endpoint_url, scrubbed
from trials.errors import StoreError

if TYPE_CHECKING:
    from obstore.store import BackoffConfig, ClientConfig, GCSConfig, RetryConfig


T = TypeVar("T")
Service: TypeAlias = S3Store | GCSStore

PATIENCE_S = 60.0  # for retries, once the service has answered; the last attempt may take as long again
FIRST_PATIENCE_S = 20.0  # before it has: the address may be wrong, or names and networks of a new container are slow
CONNECT_S, REQUEST_S = 5.0, 20.0  # timeouts of one request, which may carry `object_storage.LARGEST_BYTES`
_RENEWAL_PAUSE_S = 1.0
_RENEWED_S = 600.0  # boto3 renews credentials that have less time left, so what it hands out is valid for as long
_LONGEST_MESSAGE = 400
NO_PATH = "invalid path"  # in the message of obstore about a listing with names such as `a//b`
_PERMANENT = re.compile(rf"status code: 4(?!08|09|25|29)\d\d|Received redirect|{NO_PATH}")  # the caller is at fault
# What obstore does not retry: of S3, for temporary credentials that have expired (the answer to a HEAD has no words),
# and for a body that came too slowly; of boto3 while it renews credentials.
_AGAIN = re.compile(
    r"ExpiredToken|RequestTimeout|performing HEAD .*status code: 400|External AWS credential provider", re.DOTALL
)
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
    """A bucket whose transient errors obstore retries; credentials that expire are looked for anew.

    Attributes:
        service: Identifies the service and the bucket, as two of them may have the same paths.
        patience_s: How long one request is retried, once the service has answered.
    """

    def __init__(self, make: Callable[[float], Service], service: str, patience_s: float = PATIENCE_S) -> None:
        """`make` connects, with so many seconds for the retries of a request."""
        self._make, self.service, self.patience_s = make, service, patience_s
        self._answered = False
        self._bucket = make(min(FIRST_PATIENCE_S, patience_s))

    def ask(self, action: Callable[[Service], T], describe: Callable[[str, bool], str]) -> T:
        """The action's result.

        Args:
            action: Sends a request; may be called several times.
            describe: Makes the error message from the last attempt's message and whether the caller is likely at fault.

        Raises:
            FileNotFoundError: the object or the bucket does not exist.
            AlreadyExistsError: of obstore: the object that the action creates exists.
            StoreError: as `describe` words it, without secrets and not chained to the library's own error.
        """
        until, has_expired = time.monotonic() + self.patience_s, False
        while True:
            try:
                if has_expired:
                    self._bucket = self._make(self.patience_s)
                result = action(self._bucket)
            except _ANSWERS as error:
                self._has_answered()
                raise type(error) from None
            except _ERRORS as error:
                message = str(error)
                if "status code: 404" in message:
                    raise FileNotFoundError from None
                is_renewing = has_expired and isinstance(error, ValueError)  # the file may be half written
                has_expired = self._answered and (is_renewing or _AGAIN.search(message) is not None)
                if not has_expired or time.monotonic() > until:
                    is_ours = isinstance(error, _REFUSALS) or _PERMANENT.search(message) or not self._answered
                    raise StoreError(describe(_short(message), bool(is_ours))) from None
                time.sleep(_RENEWAL_PAUSE_S)
            else:
                self._has_answered()
                return result

    def _has_answered(self) -> None:
        """The address is right: from now on requests are retried for longer."""
        if not self._answered:
            self._answered, self._bucket = True, self._make(self.patience_s)


def connect(address: Address, patience_s: float = PATIENCE_S) -> Connection:
    """Connect to the service of an address; the bucket is not accessed yet.

    Raises:
        ConfigError: an endpoint variable of the environment is not valid.
        StoreError: there are no credentials, or the bucket's region cannot be found out.
    """
    service = " ".join(filter(None, (address.scheme, endpoint_url(address), address.host)))
    try:
        return Connection(
            lambda retry_s: (_s3 if address.scheme == "s3" else _gs)(address, retry_s), service, patience_s
        )
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


def _retries(seconds: float) -> RetryConfig:
    """Pauses grow from 50 ms to 5 s."""
    backoff: BackoffConfig = {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=5)}
    return {"max_retries": 10_000, "retry_timeout": timedelta(seconds=min(seconds, 1e6)), "backoff": backoff}


def _s3(address: Address, retry_s: float) -> S3Store:
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
        retry_config=_retries(retry_s),
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


def _gs(address: Address, retry_s: float) -> GCSStore:
    url = endpoint_url(address)
    config: GCSConfig = {"base_url": url} if url else {}
    return GCSStore(address.host, config=config, client_options=_client(), retry_config=_retries(retry_s))
