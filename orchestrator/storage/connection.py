"""Reaching S3, Google Cloud Storage or HDFS, and asking again while what they answer may pass.

Credentials are looked for by pyarrow, in the environment and the provider's own files; nothing of them is kept here,
and what pyarrow says is shown without anything that looks like one.
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
ACCESS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws/credentials, and AWS_REGION",
    "gs": "the file that GOOGLE_APPLICATION_CREDENTIALS names",
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
        said, way_out = _short(str(error)), ACCESS[address.scheme]
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
