"""A proxy on loopback that stands before a server and misbehaves as it is told, and by a seed."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter
from io import BufferedIOBase, BytesIO
from urllib.parse import urlsplit

from tests.s3_objects import Answer, refusal
from tests.s3_server import CutError, Handler, exactly
from tests.servers import QuietServer


class Faults(QuietServer):
    """Hands requests on, but for those that it spoils.

    Attributes:
        error_share: Of the requests, those that are answered 500 or 503: half of them were carried out all the same.
        slow_share: Of the requests, those whose answer waits for `slow_s` seconds.
        flip_share: Of the GETs of an object, those whose answer has one bit turned over, a random one.
        cut_puts: How many of the next PUTs break off in the middle of their body.
        cut_gets: How many of the next GETs of an object are answered with half of it.
        lost_answers: How many of the next PUTs are carried out, and their connection then closed without a word.
        expired: The id of a key that is refused as expired.
        status: What every request is answered with, if not None; nothing is handed on.
        asked: (method, path without query) of every request.
        spoilt: How many of each kind were spoilt.
    """

    def __init__(self, target: str, *, seed: int | str = 0, host: str = "127.0.0.1") -> None:
        super().__init__(_Proxy, host)
        self.target = (urlsplit(target).hostname or "", urlsplit(target).port or 0)
        self.random = random.Random(seed)
        self.error_share, self.slow_share, self.slow_s, self.flip_share = 0.0, 0.0, 0.0, 0.0
        self.cut_puts = self.cut_gets = self.lost_answers = 0
        self.status: int | None = None
        self.expired: str | None = None
        self.asked: list[tuple[str, str]] = []
        self.spoilt: Counter[str] = Counter()
        self.lock = threading.Lock()

    def fate(self, method: str, path: str, authorization: str) -> str:
        """What happens to a request; one of the keys of `spoilt`, or nothing."""
        with self.lock:
            is_expired = self.expired is not None and f"={self.expired}/" in authorization
            chosen = "expired" if is_expired else self._fate(method, path)
            self.spoilt[chosen] += 1
            return chosen

    def _fate(self, method: str, path: str) -> str:
        if self.status is not None:
            return "refused"
        if method == "PUT" and self.cut_puts:
            self.cut_puts -= 1
            return "cut"
        if method == "GET" and path.endswith(".parquet") and self.cut_gets:
            self.cut_gets -= 1
            return "cut answer"
        if method == "PUT" and self.lost_answers:
            self.lost_answers -= 1
            return "lost"
        if self.random.random() < self.error_share:
            return self.random.choice(("error before", "error after"))
        is_object = "." in urlsplit(path).path.rpartition("/")[2]
        if method == "GET" and is_object and self.random.random() < self.flip_share:
            return "flip"
        return "slow" if self.random.random() < self.slow_share else ""

    def connected(self, request: bytes) -> socket.socket:
        """A connection to the server on which a request, or the beginning of one, was sent."""
        upstream = socket.create_connection(self.target)
        upstream.sendall(request)
        return upstream

    def handed_on(self, request: bytes) -> bytes:
        """The server's answer to a request."""
        with self.connected(request) as upstream, upstream.makefile("rb") as file:
            return file.read()


class _Proxy(Handler):
    server: Faults  # type: ignore[assignment]

    def _answer(self) -> None:
        self.server.asked.append((self.command, urlsplit(self.path).path))
        head, body = self._raw_head(), _raw_body(self.rfile, dict(self.headers.items()))
        match self.server.fate(self.command, self.path, self.headers.get("Authorization", "")):
            case "refused":
                status = self.server.status or 500
                self.send(refusal(503, "SlowDown", "Reduce your request rate.") if status == 503 else Answer(status))
            case "expired":
                self.send(refusal(400, "ExpiredToken", "The provided token has expired."))
            case "error before":
                self.send(_trouble(self.server.random))
            case "error after":
                self.server.handed_on(head + body)
                self.send(_trouble(self.server.random))
            case "cut":
                self.server.connected(head + body[: len(body) // 2]).close()
                self._hang_up()
            case "cut answer":
                answer = self.server.handed_on(head + body)
                self.wfile.write(answer[: len(answer) // 2])
                self.wfile.flush()
                self._hang_up()
            case "flip":
                head, end, body = self.server.handed_on(head + body).partition(b"\r\n\r\n")
                self.wfile.write(head + end + _flipped(body, self.server.random))
            case "lost":
                self.server.handed_on(head + body)
                self._hang_up()
            case fate:
                time.sleep(self.server.slow_s if fate == "slow" else 0)
                self.wfile.write(self.server.handed_on(head + body))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    def _raw_head(self) -> bytes:
        kept = [(name, value) for name, value in self.headers.items() if name.lower() not in ("expect", "connection")]
        lines = [f"{self.command} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in kept)]
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _trouble(chance: random.Random) -> Answer:
    return Answer(chance.choice((500, 503)))


def _flipped(body: bytes, chance: random.Random) -> bytes:
    """The bytes with one bit turned over."""
    flipped = bytearray(body)
    if flipped:
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def _raw_body(file: BufferedIOBase, headers: dict[str, str]) -> bytes:
    """The body as it came, chunks and all."""
    headers = {name.lower(): value for name, value in headers.items()}
    if headers.get("transfer-encoding") != "chunked":
        return exactly(file, int(headers.get("content-length", 0)))
    raw = BytesIO()
    while True:
        line = file.readline()
        raw.write(line)
        if not line.endswith(b"\n"):
            raise CutError
        size = int(line.partition(b";")[0], 16)
        raw.write(exactly(file, size + 2))
        if not size:
            return raw.getvalue()
