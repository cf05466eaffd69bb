"""Connections that send nothing, or slowly, and visitors who come meanwhile."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

from dashboards.serving import connections
from dashboards.serving.access import Access
from dashboards.serving.server import Listening
from tests.dashboards.serving.visitors import TOKEN, ask, small_app
from tests.examples import first

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


@pytest.mark.parametrize(("limit", "most"), [("MAX_WAITING", 3), ("MAX_CONNECTIONS", 3)])
def test_of_too_many_connections_those_that_wait_longest_are_closed(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, limit, most)
    with Listening(small_app(), Access(port=0)) as server, opened(server.url, most + 2, HALF) as half:
        for each in half[:2]:
            wait_until_closed(each)
        assert not any(map(is_closed, half[2:]))


def test_more_visitors_of_one_proxy_than_may_wait_are_all_answered() -> None:
    n = connections.MAX_WAITING + 10
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


def test_a_page_without_a_body_is_answered() -> None:
    with Listening(small_app(), Access(port=0)) as server:
        reply = ask(server.url, method="HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.headers["content-length"]) > 0


@pytest.mark.parametrize(
    "line", [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/9\r\nHost: a\r\n\r\n"]
)
def test_what_is_no_http_is_answered_without_a_line_in_the_log(line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with Listening(small_app(), Access(port=0)) as server, opened(server.url, 1, line) as (odd,):
        odd.shutdown(socket.SHUT_WR)
        assert odd.recv(12) in (b"", b"HTTP/1.1 400")
        assert ask(server.url).status == 200
    assert caplog.messages == []
