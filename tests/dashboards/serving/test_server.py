"""The server itself: where it listens, how it starts, how it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from dashboards.serving.access import Access
from dashboards.serving.server import Listening
from tests.dashboards.serving.visitors import (
    CALLBACK,
    TOKEN,
    ask,
    changed_to,
    ended_by,
    other_local_address,
    program,
    small_app,
    url_of,
)
from trials.errors import ConfigError


def test_it_is_bound_to_loopback_only() -> None:
    other = other_local_address()
    if other is None:
        pytest.skip("this machine has no other address")
    with Listening(small_app(), Access(port=0)) as server:
        port = urlsplit(server.url).port or 0
        assert ask(server.url).status == 200
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((other, port), timeout=5)


def test_it_is_reached_from_another_address_with_the_token() -> None:
    other = other_local_address()
    if other is None:
        pytest.skip("this machine has no other address")
    with Listening(small_app(), Access(host=other, port=0, token=TOKEN)) as server:
        assert ask(server.url).status == 401
        assert ask(server.url, Authorization=f"Bearer {TOKEN}").status == 200


def test_nothing_is_left_listening_when_it_ends() -> None:
    with Listening(small_app(), Access(port=0)) as server:
        assert ask(server.url).status == 200
    with pytest.raises(ConnectionRefusedError):
        ask(server.url)


def test_instead_of_a_taken_port_the_next_free_one_is_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Listening(small_app(), Access(port=port)) as server:
            assert port < int(server.url.rstrip("/").rpartition(":")[2]) < port + 20
            assert ask(server.url).status == 200


def test_where_no_port_is_free_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboards.serving.server._PORTS_TRIED", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port: {port} of 127.0.0.1 and those before it are in use") as caught:
            Listening(small_app(), Access(port=port))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("host", "words"), [("192.0.2.77", "not an address of this machine"), ("no.invalid", "nor a known name")]
)
def test_a_host_that_cannot_be_bound_is_told(host: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Listening(small_app(), Access(host=host, port=0, token=TOKEN))


def test_a_dashboard_whose_first_page_fails_does_not_start() -> None:
    app = small_app()

    def layout() -> None:
        raise ValueError("no store")

    app.config.suppress_callback_exceptions = True
    app.layout = layout
    with pytest.raises(RuntimeError, match="first page failed: 500"):
        Listening(app, Access(port=0))


def test_an_answer_does_not_say_what_serves_it() -> None:
    with Listening(small_app(), Access(port=0)) as server:
        assert "server" not in ask(server.url).headers


def test_a_huge_body_over_a_socket_is_refused() -> None:
    with Listening(small_app(), Access(port=0)) as server:
        reply = ask(server.url, CALLBACK, method="POST", Content_Length=str(1 << 30), Connection="close")
    assert reply.status == 413


def test_a_visitor_is_answered_beside_connections_that_send_half_of_a_request() -> None:
    with Listening(small_app(), Access(port=0)) as server, ExitStack() as stack:
        for _ in range(50):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0)))
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert ask(server.url).status == 200


def test_the_printed_address_has_the_new_token_and_leads_to_the_page() -> None:
    with program() as process:
        url = url_of(process)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", url)
        place = f"/?{urlsplit(url).query}"
        assert [ask(url).status, ask(url, place).status, ask(url, place).headers["location"]] == [401, 303, "/"]
        assert ended_by(process, signal.SIGTERM) == (143, "", "Press Ctrl-C to stop.\n")


def test_ctrl_c_ends_it_before_a_slow_callback_and_without_a_traceback() -> None:
    """With a connection open, and a callback that would outlast the test."""
    body = json.dumps(changed_to("slow")).encode()
    head = f"POST {CALLBACK} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with program("no-token") as process:
        url = url_of(process)
        with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)) as busy:
            busy.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert ask(url).status == 200
            assert ended_by(process, signal.SIGINT) == (130, "", "Press Ctrl-C to stop.\n")


def test_no_thread_is_left_after_many_servers() -> None:
    before = threading.active_count()
    for _ in range(3):
        with Listening(small_app(), Access(port=0)) as server:
            assert ask(server.url).status == 200
    assert threading.active_count() == before
