"""The dashboard's web server: one process, six threads, bound to one address, stopped within a second of Ctrl-C.

with Listening(app, Access(port=0)) as server:  # in a test
    ...  # server.url

code = serve(app, read_access(host=host, port=port))  # in a command
"""

from __future__ import annotations

import errno
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Self

import dash
import numpy  # noqa: F401, see `_warm`
import pandas  # noqa: F401
import waitress
from flask import Flask
from waitress import wasyncore
from werkzeug.test import Client

from dashboards.serving.access import Access
from dashboards.serving.gate import MAX_BODY_BYTES
from dashboards.serving.hardened import secured
from orchestrator.config.console import say
from trials.errors import ConfigError

THREADS = 6
_QUIET_S = 30  # idle connections are closed after this time
_LAST_ANSWERS_S = 0.3  # for running callbacks when the server stops
_WHY = {
    errno.EADDRINUSE: "port: {port} of {host} is in use; choose another one, or 0 for a free one.",
    errno.EACCES: "port: {port} needs administrator rights; choose 1024 or above, or 0 for a free one.",
    errno.EADDRNOTAVAIL: "host: {host} is not an address of this machine.",
}


class Listening:
    """A dashboard served by a thread of its own as long as the `with` block runs.

    Attributes:
        url: Its address, with the actual port.

    Raises:
        ConfigError: the address cannot be bound.
    """

    def __init__(self, app: dash.Dash, access: Access, *, debug: bool = False) -> None:
        self._socket = _bound(access)
        try:
            flask = secured(app, access, debug=debug)
            _warm(flask, access, app.config.routes_pathname_prefix)
            self._map: dict[int, Any] = {}
            self._server = _waitress(flask, self._socket, self._map)
        except BaseException:
            self._socket.close()
            raise
        self.url = f"http://{_shown_host(access)}:{self._socket.getsockname()[1]}/"
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._answer, name="dashboard", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        with suppress(OSError):  # it may have ended by itself since, and closed what it is woken by
            self._server.pull_trigger()
        self._thread.join()

    def _answer(self) -> None:
        while not self._ending.is_set():
            wasyncore.loop(timeout=1, use_poll=True, map=self._map, count=1)
        self._server.task_dispatcher.shutdown(timeout=_LAST_ANSWERS_S)
        for connection in list(self._server.active_channels.values()):
            connection.handle_close()
        wasyncore.close_all(self._map, ignore_all=True)


def serve(app: dash.Dash, access: Access, *, debug: bool = False) -> int:
    """Serve until Ctrl-C or SIGTERM; print the address on stderr.

    Returns:
        The exit code: 130 after Ctrl-C, 143 after SIGTERM.

    Raises:
        ConfigError: the address cannot be bound.
    """
    with _stopped_by_signal() as stopped, Listening(app, access, debug=debug) as server:
        say(f"The dashboard is at {server.url}" + (" and needs its token." if access.token else ""))
        if not access.on_loopback:
            say("Warning: plain HTTP can be read by the network; use ssh or a TLS proxy.")
        say("Press Ctrl-C to stop.")
        number = stopped.wait()
    return 128 + number


class _Stop:
    """Waits for the first signal."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self._number = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._number = self._number or number
        self._came.set()

    def wait(self) -> int:
        self._came.wait()
        return self._number


@contextmanager
def _stopped_by_signal() -> Iterator[_Stop]:
    """While the block runs, signals only set a flag: an exception could interrupt anything."""
    stop = _Stop()
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _warm(flask: Flask, access: Access, prefix: str) -> None:
    """Request the first page before any visitor can.

    Dash completes an app during its first request and admits a second one meanwhile (an open tab reconnects at once);
    and if callbacks are the first to import numpy or pandas, two threads may see a half-imported module
    (https://github.com/plotly/plotly.py/issues/2433).
    """
    client = Client(flask.wsgi_app)
    headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    for path in ("", "_dash-layout", "_dash-dependencies"):
        answer = client.get(prefix + path, base_url="http://127.0.0.1", headers=headers)
        if answer.status_code != 200:
            raise RuntimeError(f"the dashboard's first page failed: {answer.status}: {answer.get_data(as_text=True)}")


def _bound(access: Access) -> socket.socket:
    try:
        found = socket.getaddrinfo(access.address, access.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"host: {access.host!r} is neither an address nor a known name: {error}.") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(place)
    except OSError as error:
        bound.close()
        why = _WHY.get(error.errno or 0, "host: {host}:{port} cannot be bound: {error}.")
        raise ConfigError(why.format(host=access.host, port=access.port, error=error.strerror)) from error
    return bound


def _waitress(flask: Flask, bound: socket.socket, sockets: dict[int, Any]) -> Any:
    logging.getLogger("waitress").setLevel(logging.ERROR)  # it warns whenever seven requests come at once
    return waitress.create_server(
        flask,
        map=sockets,
        sockets=[bound],
        threads=THREADS,
        ident="",
        channel_timeout=_QUIET_S,
        outbuf_overflow=16 << 20,  # Plotly's 4.8 MB go out of memory, not through a temporary file
        max_request_header_size=64 << 10,
        max_request_body_size=4 * MAX_BODY_BYTES,  # the gate's limit has words and headers; this one spares memory
        asyncore_use_poll=True,
    )


def _shown_host(access: Access) -> str:
    """The host that a browser on this machine can open."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(access.host, access.host)  # noqa: S104
    return f"[{host}]" if ":" in host else host
