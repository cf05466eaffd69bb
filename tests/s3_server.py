"""A small S3 in a process of its own on loopback.

python -m tests.s3_server --page 1000

It prints its port and serves until its stdin ends. A body that does not come to its end leaves nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase, BytesIO
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.s3_objects import ACCESS_KEY, BUCKET, SECRET_KEY, Answer, Asked, Objects
from tests.servers import QuietServer

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_EC2_METADATA_DISABLED": "true",  # asked for a region otherwise, at an address that nobody answers
}


class CutError(Exception):
    """The connection ended before the request did."""


def decoded_body(file: BufferedIOBase, headers: Mapping[str, str]) -> bytes:
    """A request's body: of a stated length or in HTTP's chunks, inside perhaps in Amazon's; `headers` in lower case."""
    if headers.get("transfer-encoding") == "chunked":
        body = joined_chunks(file)
    else:
        body = exactly(file, int(headers.get("content-length", 0)))
    if "aws-chunked" not in headers.get("content-encoding", ""):
        return body
    body = joined_chunks(BytesIO(body))
    if len(body) != int(headers["x-amz-decoded-content-length"]):
        raise CutError
    return body


def joined_chunks(file: BufferedIOBase) -> bytes:
    """Chunks of either protocol: each its size in hex and its bytes, on lines of their own; then trailers."""
    pieces = []
    while size := int(_line(file).partition(b";")[0], 16):
        pieces.append(exactly(file, size))
        _line(file)
    while _line(file):
        pass
    return b"".join(pieces)


def _line(file: BufferedIOBase) -> bytes:
    line = file.readline()
    if not line.endswith(b"\n"):
        raise CutError
    return line.rstrip(b"\r\n")


def exactly(file: BufferedIOBase, size: int) -> bytes:
    """So many bytes, or `CutError`."""
    content = file.read(size)
    if len(content) < size:
        raise CutError
    return content


class Handler(BaseHTTPRequestHandler):
    """Reads a request, sends an answer in one piece: of two, the second would wait for the first's acknowledgement."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: S3Server

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = decoded_body(self.rfile, headers)
        except CutError:
            self.close_connection = True
            return
        url = urlsplit(self.path)
        time.sleep(self.server.delay_s)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        self.send(self.server.objects.answer(Asked(self.command, bucket, key, query, headers, body)))

    def send(self, answer: Answer) -> None:
        """Send an answer."""
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    def handle_expect_100(self) -> bool:
        done = super().handle_expect_100()
        self.wfile.flush()
        return done

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class S3Server(QuietServer):
    """Answers from its `objects`, each time after `delay_s`."""

    def __init__(self, page: int, delay_s: float, *, has_conditions: bool) -> None:
        super().__init__(Handler)
        self.delay_s, self.objects = delay_s, Objects(page, has_conditions=has_conditions)


class S3Process:
    """The server while its `with` lasts.

    Attributes:
        url: Where it listens.
    """

    def __init__(self, page: int = 1000, *, has_conditions: bool = True, delay_s: float = 0.0) -> None:
        self._words = [f"--page={page}", f"--delay-s={delay_s}", *([] if has_conditions else ["--ignore-conditions"])]
        self.url = ""

    def __enter__(self) -> Self:
        words = [sys.executable, "-m", "tests.s3_server", *self._words]
        checkout = Path(__file__).parents[1]
        self._process = subprocess.Popen(words, cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            self._process.terminate()  # its input may be kept open by a process that was forked meanwhile

    def address(self, prefix: str, url: str | None = None) -> str:
        """A store's address, perhaps through a proxy at `url`."""
        return f"s3://{BUCKET}/{prefix}?endpoint_override={url or self.url}"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--page", type=int, default=1000)
    options.add_argument("--delay-s", type=float, default=0.0)
    options.add_argument("--ignore-conditions", action="store_true")
    given = options.parse_args()
    with S3Server(given.page, given.delay_s, has_conditions=not given.ignore_conditions) as server:
        sys.stdout.write(f"{server.server_port}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
