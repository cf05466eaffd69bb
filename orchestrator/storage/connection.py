"""Connections to S3, Google Cloud Storage and HDFS that retry transient errors.

pyarrow finds the credentials, in the environment and the provider's own files. They are never stored here, and its
error messages are shown without anything that looks like one.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pyarrow as pa
from pyarrow import fs

from orchestrator.storage.address import Address, endpoint, scrubbed
from trials.errors import StoreError

T = TypeVar("T")

PATIENCE_S = 60.0  # for retries, once the service has answered; the last attempt may take as long again
FIRST_PATIENCE_S = 10.0  # before it has: more likely the address is wrong
CONNECT_S, REQUEST_S = 5.0, 10.0  # timeouts of one request
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0
_LONGEST_MESSAGE = 400
_PERMANENT = re.compile(
    r"ACCESS_DENIED|NO_SUCH_BUCKET|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN_ID|EXPIRED_TOKEN"
    r"|InvalidAccessKeyId|SignatureDoesNotMatch|NoSuchBucket|ExpiredToken|InvalidBucketName"
    r"|HTTP status (?:3\d\d|4(?!08|25|29)\d\d)|PERMISSION_DENIED|UNAUTHENTICATED|lib(?:jvm|hdfs)"
)
# Of S3, for temporary credentials that have expired; the answer to a HEAD has no words.
_EXPIRED = re.compile(r"EXPIRED_TOKEN|ExpiredToken|HTTP status 400\) during Head")
ACCESS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws/credentials, and AWS_REGION",
    "gs": "the file that GOOGLE_APPLICATION_CREDENTIALS names",
    "hdfs": "JAVA_HOME, HADOOP_HOME and CLASSPATH (`hadoop classpath --glob`), or the Kerberos ticket",
}


class Connection:
    """A filesystem whose transient errors are retried; credentials that expire are looked for anew.

    Attributes:
        filesystem: pyarrow's.
        service: Identifies the service, as two of them may have the same paths.
        patience_s: How long one request is retried.
    """

    def __init__(self, make: Callable[[], fs.FileSystem], service: str, patience_s: float = PATIENCE_S) -> None:
        self._make = make
        self.filesystem, self.service, self.patience_s = make(), service, patience_s
        self._answered = False

    def ask(self, action: Callable[[], T], describe: Callable[[str, bool], str]) -> T:
        """The action's result, retried for `patience_s` unless the error is permanent.

        Args:
            action: Sends a request; may be called many times.
            describe: Makes the error message from the last attempt's message and whether the caller is likely at fault.

        Raises:
            FileNotFoundError: the object does not exist.
            StoreError: as `describe` words it, without secrets and not chained to the library's own error.
        """
        patience = self.patience_s if self._answered else min(FIRST_PATIENCE_S, self.patience_s)
        deadline, pause, has_expired = time.monotonic() + patience, _FIRST_PAUSE_S, False
        while True:
            try:
                if has_expired:
                    self.filesystem = self._make()  # the SDK reads a file of credentials once a client
                result = action()
            except FileNotFoundError:
                self._answered = True
                raise
            except (OSError, pa.ArrowException) as error:
                message = str(error)
                has_expired = self._answered and _EXPIRED.search(message) is not None
                is_permanent = not isinstance(error, OSError) or (
                    _PERMANENT.search(message) is not None and not has_expired
                )
                if is_permanent or time.monotonic() + pause > deadline:
                    raise StoreError(describe(_short(message), is_permanent or not self._answered)) from None
            else:
                self._answered = True
                return result
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # so that many clients do not retry at once
            pause = min(2 * pause, _LONGEST_PAUSE_S)


def connect(address: Address) -> Connection:
    """Connect to the service of an address; the bucket is not accessed yet.

    Raises:
        ConfigError: an endpoint variable of the environment is not valid.
        StoreError: a library or setting that the service needs is missing.
    """
    made = {"s3": _s3, "gs": _gs, "hdfs": _hdfs}[address.scheme]
    try:
        return Connection(lambda: made(address), " ".join(filter(None, (address.scheme, *endpoint(address)))))
    except (OSError, pa.ArrowException) as error:
        reason, way_out = _short(str(error)), ACCESS[address.scheme]
        raise StoreError(f"{address.without_options}: cannot be reached ({reason}). Access needs {way_out}.") from None


def _short(message: str) -> str:
    """The first line of a library's message, without secrets; some repeat it a hundred times."""
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
        retry_strategy=fs.AwsDefaultS3RetryStrategy(
            max_attempts=3
        ),  # of one page of a listing; `ask` retries the whole listing
    )


def _gs(address: Address) -> fs.FileSystem:
    host, scheme = endpoint(address)
    return fs.GcsFileSystem(endpoint_override=host, scheme=scheme, retry_time_limit=timedelta(seconds=REQUEST_S))


def _hdfs(address: Address) -> fs.FileSystem:
    user, _, host = address.host.rpartition("@")
    name, _, port = host.partition(":")
    return fs.HadoopFileSystem(name or "default", int(port or (8020 if name else 0)), user=user or None)
