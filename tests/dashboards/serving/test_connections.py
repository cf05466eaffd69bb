"""Connections that send nothing, or slowly, and visitors who come meanwhile."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from dashboards.serving import connections
from dashboards.serving.access import Access
from dashboards.serving.server import Listening
from tests.dashboards.serving.visitors import TOKEN, ask, changed_to, small_app
from tests.examples import each, first

HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
WHOLE = b"GET /_favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n"
DEADLINE_S = 60  # of a test that fails; one that passes waits for a condition


@contextmanager
def opened(url: str, n: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Connections that have sent these bytes."""
    place = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_connection(place, timeout=DEADLINE_S)) for _ in range(n)]
        for each in found:
            each.sendall(sent)
        yield found


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed it by now."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def has_ended(connection: socket.socket) -> bool:
    """Whether the server has closed it, once what came before is read."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 20):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def wait_until_closed(connection: socket.socket, sending: bytes = b"") -> None:
    until = time.monotonic() + DEADLINE_S
    while not is_closed(connection):
        assert time.monotonic() < until
        time.sleep(0.02)
        if sending:
            try:
                connection.send(sending)
            except OSError:
                return


@pytest.mark.parametrize("sent", first(1, [HALF, b""]))
def test_150_half_open_connections_keep_nobody_out(sent: bytes) -> None:
    right = {"Authorization": f"Bearer {TOKEN}"}
    with Listening(small_app(), Access(port=0, token=TOKEN)) as server, opened(server.url, 150, sent) as half:
        assert [ask(server.url, path, **right).status for path in ("/", "/_dash-layout", "/_dash-dependencies")] == [
            200
        ] * 3
        assert ask(server.url).status == 401
        assert not is_closed(half[-1])  # they were answered while others still waited


def test_headers_that_come_byte_by_byte_meet_their_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 0.2)
    with Listening(small_app(), Access(port=0)) as server, opened(server.url, 1, HALF) as (slow,):
        wait_until_closed(slow, sending=b"a")
        assert ask(server.url).status == 200


def test_a_body_that_does_not_come_meets_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_S", 0.2)
    head = b"POST /_dash-update-component HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
    with Listening(small_app(), Access(port=0)) as server, opened(server.url, 1, head) as (slow,):
        wait_until_closed(slow, sending=b"")
        assert ask(server.url).status == 200


def callback(value: str) -> bytes:
    """The request for a callback."""
    body = json.dumps(changed_to(value)).encode()
    head = "POST /_dash-update-component HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def opened_slowly(stack: ExitStack, url: str, n: int, sent: bytes) -> list[socket.socket]:
    """Connections that have sent these bytes and take little of what they get."""
    place, found = (urlsplit(url).hostname or "", urlsplit(url).port or 0), []
    for _ in range(n):
        found.append(stack.enter_context(socket.socket()))
        found[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        found[-1].settimeout(DEADLINE_S)
        found[-1].connect(place)
        found[-1].sendall(sent)
    return found


HUGE = callback("huge")  # its answer is more than sockets hold that nobody reads
ATTACKS = {
    "half of the headers": HALF,
    "half of a body": callback("1")[:-1],
    "a body of chunks": callback("1").partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n9\r\n",
    "no reading": HUGE,
    "nothing": b"",
}


@each("attack", ATTACKS)
def test_of_too_many_connections_those_that_wait_longest_are_closed(
    attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    with Listening(small_app(), Access(port=0)) as server, ExitStack() as stack:
        first_three = opened_slowly(stack, server.url, 3, ATTACKS[attack])
        if attack == "no reading":
            for each in first_three:
                assert each.recv(1)  # its answer has begun
        later = opened_slowly(stack, server.url, 2, HALF)
        until = time.monotonic() + DEADLINE_S
        while sum(map(has_ended, first_three)) < 2:  # which two is decided by whose request was whole first
            assert time.monotonic() < until
            time.sleep(0.02)
        assert not any(map(is_closed, later))
        assert ask(server.url).status == 200


def test_an_answer_that_nobody_takes_meets_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "RESPONSE_S", 0.2)
    close, closed = connections._BoundedServer._close, threading.Event()

    def close_and_tell(*details: Any) -> None:
        close(*details)
        closed.set()

    monkeypatch.setattr(connections._BoundedServer, "_close", close_and_tell)
    with Listening(small_app(), Access(port=0)) as server, ExitStack() as stack:
        (slow,) = opened_slowly(stack, server.url, 1, HUGE)
        assert closed.wait(DEADLINE_S)
        assert sum(len(piece) for piece in iter(lambda: slow.recv(1 << 20), b"")) < 6_000_000
        assert ask(server.url).status == 200


@each("host", ["127.0.0.1:abc", "127.0.0.1:", "[::1", "[::1]:x", "a b", "a,b", ":", "\x00", "ü"])
@each("token", [None, TOKEN])
def test_a_host_that_is_none_is_refused_and_the_connection_does_not_stay(host: str, token: str | None) -> None:
    odd = b"GET / HTTP/1.1\r\nHost: " + host.encode() + b"\r\nConnection: close\r\n\r\n"
    with Listening(small_app(), Access(port=0, token=token)) as server, opened(server.url, 1, odd) as (one,):
        assert one.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 401")
        while one.recv(1000):
            pass


def test_a_request_that_our_own_code_fails_at_is_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections._Container, "environ", lambda self, request: 1 // 0)
    with Listening(small_app(), Access(port=0)) as server:
        assert ask(server.url).status == 500
    assert caplog.messages == ["a request had no answer"]


def test_many_visitors_of_one_proxy_are_all_answered() -> None:
    n = 74
    with Listening(small_app(), Access(port=0)) as server:
        place = (urlsplit(server.url).hostname or "", urlsplit(server.url).port or 0)
        with ExitStack() as stack:
            for _ in range(n):  # each stays connected, as a proxy's connections do
                visitor = stack.enter_context(socket.create_connection(place, timeout=DEADLINE_S))
                visitor.sendall(WHOLE)
                assert visitor.recv(12) == b"HTTP/1.1 200"


def test_two_dashboards_on_a_machine_have_cookies_of_their_own_whatever_the_host_says() -> None:
    with Listening(small_app(), Access(port=0, token=TOKEN)) as server:
        reply = ask(server.url, f"/?token={TOKEN}", Host="localhost")
    assert reply.headers["set-cookie"].startswith(f"permafrost-{urlsplit(server.url).port}=")


@each("line", [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/9\r\nHost: a\r\n\r\n"])
def test_what_is_no_http_is_answered_without_a_line_in_the_log(line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with Listening(small_app(), Access(port=0)) as server, opened(server.url, 1, line) as (odd,):
        odd.shutdown(socket.SHUT_WR)
        assert odd.recv(12) in (b"", b"HTTP/1.1 400")
        assert ask(server.url).status == 200
    assert caplog.messages == []
