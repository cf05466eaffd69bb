"""An S3 on loopback: moto's server, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from types import TracebackType
from typing import Self

BUCKET = "bucket"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",  # the pair of Amazon's own documentation; it opens nothing
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
}
# It prints its port and serves until its stdin ends.
_PROGRAM = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


class S3Process:
    """The server while its `with` lasts, with a bucket. A listing has `page` names a page.

    Attributes:
        url: Where it listens.
    """

    def __init__(self, page: int = 1000) -> None:
        self._page, self.url = page, ""

    def __enter__(self) -> Self:
        environment = os.environ | {"MOTO_S3_DEFAULT_MAX_KEYS": str(self._page)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{BUCKET}", method="PUT")).close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            self._process.terminate()  # its input may be kept open by a process that was forked meanwhile

    def address(self, prefix: str) -> str:
        """A store's address."""
        return f"s3://{BUCKET}/{prefix}?endpoint_override={self.url}"
