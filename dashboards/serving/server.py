"""The dashboard's web server: waitress in one process, bound to one address, stopped within a second of Ctrl-C.

with Listening(app, Access(port=0)) as server:  # in a test
    ...  # server.url

code = serve(app, read_access(host=host, port=port), say)  # in a command
"""

from __future__ import annotations

import errno
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self
from urllib.parse import quote

import dash
import numpy  # noqa: F401, see `_warm`
import pandas  # noqa: F401
from flask import Flask
from waitress import wasyncore
from waitress.server import create_server
from werkzeug.test import Client

from dashboards.serving.access import Access
from dashboards.serving.gate import secured
from trials.errors import ConfigError

_LIMITS = {  # of waitress, which closes who is silent for long and reads no more than this
    "threads": 6,
    "connection_limit": 420,  # some need a file for what they have not read: below the usual limit of 1024 open ones
    "channel_timeout": 60,
    "channel_request_lookahead": 1,  # else it does not notice who leaves before the answer
    "max_request_header_size": 64 << 10,
    "max_request_body_size": 2 << 20,  # a callback sends the state of its controls: some KB
}
_PORTS_TRIED = 20  # from the one asked for
_LOOK_S = 0.1  # between two looks whether a signal has come
_LAST_ANSWERS_S = 0.3  # for running callbacks when the server stops
_WHY = {
    errno.EADDRINUSE: "port: {port} of {host} and those before it are in use; choose another one, or 0 for a free one.",
    errno.EACCES: "port: {port} needs administrator rights; choose 1024 or above, or 0 for a free one.",
    errno.EADDRNOTAVAIL: "host: {host} is not an address of this machine.",
}


class Listening:
    """A dashboard served by a thread of its own as long as the `with` block runs. Raises ConfigError.

    Attributes:
        url: Its address, with the actual port.
    """

    def __init__(self, app: dash.Dash, access: Access) -> None:
        bound = _bound(access)
        self._map: dict[int, Any] = {}  # waitress's open connections
        try:
            flask = secured(app, access)
            _warm(flask, access)
            logging.getLogger("waitress").setLevel(logging.ERROR)  # a queue of requests is no news
            self._server = create_server(flask, map=self._map, sockets=[bound], ident=None, **_LIMITS)
        except BaseException:
            bound.close()
            raise
        below = access.url_prefix.removesuffix("/")
        self.url = f"http://{_shown_host(access)}:{bound.getsockname()[1]}{below}/"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._answer, name="dashboard", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._server.pull_trigger()
        self._thread.join()
        self._server.task_dispatcher.shutdown(timeout=_LAST_ANSWERS_S)
        wasyncore.close_all(self._map, ignore_all=True)

    def _answer(self) -> None:
        while not self._stop.is_set():
            wasyncore.loop(timeout=1.0, use_poll=True, map=self._map, count=1)


def serve(app: dash.Dash, access: Access, say: Callable[[str], None], *, page: str = "") -> int:
    """Serve until Ctrl-C (exit code 130) or SIGTERM (143); say the address of a page. Raises ConfigError."""
    received: list[int] = []  # an exception could interrupt anything

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Listening(app, access) as server:
            if access.port and f":{access.port}/" not in server.url:
                say(f"Port {access.port} is in use.")
            needs = " and needs its token." if access.token and not access.token_is_new else ""
            say(f"The dashboard is at {server.url}{_page_with_token(page, access)}{needs}")
            if not access.on_loopback:
                say("Warning: plain HTTP can be read by the network, and this server is no match for it. Use ssh, or")
                say("put a proxy before it: docs/pages/howto/dashboard.md has the file for nginx.")
            say("Press Ctrl-C to stop.")
            # Python runs a handler when its main thread runs: one that waits for a lock from just then on never does.
            while not received:
                time.sleep(_LOOK_S)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 + received[0]


def _page_with_token(page: str, access: Access) -> str:
    """The query of a page, with the token added if it is new, so that nobody else can know it."""
    if not (access.token and access.token_is_new):
        return page
    return f"{page}{'&' if page else '?'}token={quote(access.token)}"


def _warm(flask: Flask, access: Access) -> None:
    """Request the first page before any visitor can.

    Dash completes an app during its first request and admits a second one meanwhile (an open tab reconnects at once);
    and if callbacks are the first to import numpy or pandas, two threads may see a half-imported module
    (https://github.com/plotly/plotly.py/issues/2433).
    """
    client = Client(flask.wsgi_app)
    headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    for path in ("/", "/_dash-layout", "/_dash-dependencies"):
        answer = client.get(path, base_url="http://127.0.0.1", headers=headers, follow_redirects=True)
        if answer.status_code != 200:
            raise RuntimeError(f"the dashboard's first page failed: {answer.status}: {answer.get_data(as_text=True)}")


def _bound(access: Access) -> socket.socket:
    """A socket at the port, or at the next free one."""
    try:
        addresses = socket.getaddrinfo(access.address, access.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(f"host: {access.host!r} is neither an address nor a known name: {error}.") from error
    family, kind, protocol, _, place = addresses[0]
    last = min(access.port + _PORTS_TRIED, 65_536) if access.port else 1
    for port in range(access.port, last):
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind((place[0], port, *place[2:]))
        except OSError as error:
            bound.close()
            if error.errno == errno.EADDRINUSE and port + 1 < last:
                continue
            why = _WHY.get(error.errno or 0, "host: {host}:{port} cannot be bound: {error}.")
            raise ConfigError(why.format(host=access.host, port=port, error=error.strerror)) from error
        return bound
    raise AssertionError("every port is bound or refused")


def _shown_host(access: Access) -> str:
    """The host that a browser on this machine can open."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(access.host, access.host)  # noqa: S104
    return f"[{host}]" if ":" in host else host
