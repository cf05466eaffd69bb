"""HTTP connections of the dashboard: Tornado's server, with bounds on how long and how many connections may wait.

A connection waits for its visitor: until a request has come as a whole, and until its response has been taken. Either
has a deadline, and if there are too many connections, those that wait longest are closed. So a visitor is answered
beside any number of connections that send or read nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from tornado import httputil
from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.wsgi import WSGIContainer

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

THREADS = 6
HEADERS_S = 20.0  # until the headers of a request are complete, from connecting or from the previous response
BODY_S = 30.0  # until the rest of it is
RESPONSE_S = 120.0  # until a response has been taken: 5 MB over a slow line
MAX_CONNECTIONS = 256  # below the usual limit of 1024 open files
MAX_HEADER_BYTES = 64 << 10

P = ParamSpec("P")
T = TypeVar("T")


async def serve_until(
    stop: asyncio.Event,
    application: WSGIApplication,
    bound: socket.socket,
    *,
    max_body_bytes: int,
    last_answers_s: float,
) -> None:
    """Answer requests until `stop` is set.

    Args:
        stop: Ends the server.
        application: Called in `THREADS` threads.
        bound: A listening socket; it is closed in the end.
        max_body_bytes: A request with a larger body is refused before the body is read.
        last_answers_s: How long requests in progress may continue after `stop`.
    """
    logging.getLogger("tornado.access").setLevel(logging.CRITICAL)  # the application logs what failed
    threads = _DaemonThreads(THREADS)
    server = _BoundedServer(
        _Container(application, threads, bound.getsockname()[1]),
        idle_connection_timeout=HEADERS_S,
        body_timeout=BODY_S,
        max_header_size=MAX_HEADER_BYTES,
        max_body_size=max_body_bytes,
    )
    server.add_socket(bound)
    try:
        await stop.wait()
    finally:
        server.stop()
        await asyncio.to_thread(threads.close, last_answers_s)
        await server.close_all_connections()


class _BoundedServer(HTTPServer):
    """Closes the connections that wait longest for their visitor if there are too many."""

    def initialize(self, *args: Any, **options: Any) -> None:
        super().initialize(*args, **options)
        # The longest waiting first; those whose response is being taken each with its deadline.
        self._waiting: dict[HTTP1ServerConnection, asyncio.TimerHandle | None] = {}

    def start_request(self, server_conn: object, request_conn: httputil.HTTPConnection) -> httputil.HTTPMessageDelegate:
        connection = cast("HTTP1ServerConnection", server_conn)
        self._wait(connection, None)
        if sum(not other.stream.closed() for other in self._connections) > MAX_CONNECTIONS:
            self._close(next(iter(self._waiting)))
        http = cast("HTTP1Connection", request_conn)
        request = super().start_request(server_conn, _Response(http, lambda: self._wait(connection, RESPONSE_S)))
        return _Request(request, http, lambda: self._forget(connection), self.conn_params.max_body_size or 0)

    def _wait(self, connection: HTTP1ServerConnection, at_most_s: float | None) -> None:
        self._forget(connection)
        close = partial(self._close, connection)
        deadline = asyncio.get_running_loop().call_later(at_most_s, close) if at_most_s is not None else None
        self._waiting[connection] = deadline

    def _close(self, connection: HTTP1ServerConnection) -> None:
        self._forget(connection)  # now, as it ends only after others that have come by then
        connection.stream.close()

    def _forget(self, connection: HTTP1ServerConnection) -> None:
        if (deadline := self._waiting.pop(connection, None)) is not None:
            deadline.cancel()

    def on_close(self, server_conn: object) -> None:
        self._forget(cast("HTTP1ServerConnection", server_conn))
        super().on_close(server_conn)


class _Request(httputil.HTTPMessageDelegate):
    """Passes a request on, unless its body is too large; calls `is_whole` when all of it has come."""

    def __init__(
        self,
        request: httputil.HTTPMessageDelegate,
        connection: HTTP1Connection,
        is_whole: Callable[[], object],
        max_body_bytes: int,
    ) -> None:
        self._request, self._connection, self._is_whole, self._limit = request, connection, is_whole, max_body_bytes

    def headers_received(
        self, start_line: httputil.RequestStartLine | httputil.ResponseStartLine, headers: httputil.HTTPHeaders
    ) -> Any:
        length = headers.get("Content-Length", "")
        if length.isascii() and length.isdigit() and int(length) > self._limit:
            return self._refuse(b"413 Content Too Large")
        try:
            return self._request.headers_received(start_line, headers)
        except httputil.HTTPInputError:  # of a `Host` that is none; Tornado would log it and hang up
            return self._refuse(b"400 Bad Request")

    def _refuse(self, status: bytes) -> None:
        stream = self._connection.detach()
        stream.write(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        stream.close()

    def data_received(self, chunk: bytes) -> Any:
        return self._request.data_received(chunk)

    def finish(self) -> None:
        self._is_whole()
        self._request.finish()

    def on_connection_close(self) -> None:
        self._request.on_connection_close()


class _Response(httputil.HTTPConnection):
    """A connection whose responses do not name the server; calls `begun` when one is being taken."""

    def __init__(self, connection: HTTP1Connection, begun: Callable[[], object]) -> None:
        self._connection, self._begun, self.context = connection, begun, connection.context

    def write_headers(
        self, start_line: Any, headers: httputil.HTTPHeaders, chunk: bytes | None = None
    ) -> asyncio.Future[None]:
        self._begun()
        headers.pop("Server", None)
        return self._connection.write_headers(start_line, headers, chunk)

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        return self._connection.write(chunk)

    def finish(self) -> None:
        self._connection.finish()


class _Container(WSGIContainer):
    """Runs the application in threads, and answers whatever request."""

    def __init__(self, application: WSGIApplication, threads: Executor, port: int) -> None:
        super().__init__(application, threads)
        self._port = str(port)

    async def handle_request(self, request: httputil.HTTPServerRequest) -> None:
        """Answer a request; with 500 where the application has no answer, as a connection would wait for one."""
        try:
            await super().handle_request(request)
        except StreamClosedError:
            pass
        except Exception:
            log.exception("a request had no answer")
            assert request.connection is not None
            with contextlib.suppress(Exception):  # its headers may be written already
                start = httputil.ResponseStartLine("HTTP/1.1", 500, "Internal Server Error")
                request.connection.write_headers(start, httputil.HTTPHeaders({"Content-Length": "0"}))
                request.connection.finish()

    def environ(self, request: httputil.HTTPServerRequest) -> dict[str, Any]:
        """The variables of a request, with the port that it came to: its `Host` header may say anything."""
        request.host = "localhost"
        return super().environ(request) | {"SERVER_PORT": self._port}


class _DaemonThreads(Executor):
    """Threads for requests, which unlike those of ThreadPoolExecutor do not outlive a Ctrl-C by a slow callback."""

    def __init__(self, n_threads: int) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(n_threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        self._calls.put(call)
        return future

    def close(self, timeout_s: float) -> None:
        """End the threads, waiting for each at most so long."""
        for _ in self._threads:
            self._calls.put(None)
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
