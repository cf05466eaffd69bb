"""The dashboard's web server: one process, bound to one address, stopped within a second of Ctrl-C.

with Listening(app, Access(port=0)) as server:  # in a test
    ...  # server.url

code = serve(app, read_access(host=host, port=port), say)  # in a command
"""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

import dash
import numpy  # noqa: F401, see `_warm`
import pandas  # noqa: F401
from flask import Flask
from werkzeug.test import Client

from dashboards.serving.access import Access
from dashboards.serving.connections import serve_until
from dashboards.serving.gate import MAX_BODY_BYTES
from dashboards.serving.hardened import secured
from trials.errors import ConfigError

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

    def __init__(self, app: dash.Dash, access: Access, *, debug: bool = False) -> None:
        _refuse_own_addresses(app.server, access.url_prefix)
        self._socket = _bound(access)
        try:
            flask = secured(app, access, debug=debug)
            _warm(flask, access, app.config.routes_pathname_prefix)
            self._socket.setblocking(False)
            self._socket.listen(socket.SOMAXCONN)
        except BaseException:
            self._socket.close()
            raise
        below = access.url_prefix.removesuffix("/")
        self.url = f"http://{_shown_host(access)}:{self._socket.getsockname()[1]}{below}/"
        self._flask = flask
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._answer()), name="dashboard", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _answer(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await serve_until(
            self._stop,
            self._flask,
            self._socket,
            max_body_bytes=4 * MAX_BODY_BYTES,  # the gate's limit has words and headers; this one spares memory
            last_answers_s=_LAST_ANSWERS_S,
        )


def serve(app: dash.Dash, access: Access, say: Callable[[str], None], *, page: str = "", debug: bool = False) -> int:
    """Serve until Ctrl-C (exit code 130) or SIGTERM (143); say the address of a page. Raises ConfigError."""
    with _stopped_by_signal() as stopped, Listening(app, access, debug=debug) as server:
        if access.port and f":{access.port}/" not in server.url:
            say(f"Port {access.port} is in use.")
        say(f"The dashboard is at {server.url}{page}" + (" and needs its token." if access.token else ""))
        if not access.on_loopback:
            say("Warning: plain HTTP can be read by the network, and this server is no match for it. Use ssh, or put a")
            say("proxy before it: docs/pages/howto/dashboard.md has the file for nginx.")
        say("Press Ctrl-C to stop.")
        number = stopped.wait()
    return 128 + number


class _Stop:
    """Waits for the first signal.

    It looks again and again: Python runs a handler when its main thread runs, and if that thread begins to wait for a
    lock just after a signal has come, it waits without end.
    """

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._number = self._number or number

    def wait(self) -> int:
        while not self._number:
            time.sleep(_LOOK_S)
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
        answer = client.get(prefix + path, base_url="http://127.0.0.1", headers=headers, follow_redirects=True)
        if answer.status_code != 200:
            raise RuntimeError(f"the dashboard's first page failed: {answer.status}: {answer.get_data(as_text=True)}")


def _refuse_own_addresses(flask: Flask, prefix: str) -> None:
    """Raise ConfigError for a prefix that looks like what a proxy leaves of an address."""
    ours = {rule.rule.split("/")[1] for rule in flask.url_map.iter_rules()}
    if prefix and prefix.split("/")[1] in ours - {""}:
        raise ConfigError(f"url prefix: {prefix!r} begins as an address of the dashboard itself; choose another path.")


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
