"""HTTP connections of the dashboard: Tornado's server, with bounds on how long and how many connections may wait.

A connection waits until the headers of a request are complete. If an address has too many waiting connections, or there
are too many connections in all, those that wait longest are closed. So half-open connections cannot exhaust the server,
and a proxy, whose visitors share its address, only loses connections that carry no request.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from tornado import httputil
from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.wsgi import WSGIContainer

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

THREADS = 6
HEADERS_S = 20.0  # until the headers of a request are complete, from connecting or from the previous response
BODY_S = 30.0
MAX_WAITING = 64  # connections of one address that wait for headers; a browser has up to six
MAX_CONNECTIONS = 256  # of all addresses, below the usual limit of 1024 open files
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
    """Closes the connections that wait longest for headers if there are too many."""

    def initialize(self, *args: Any, **options: Any) -> None:
        super().initialize(*args, **options)
        self._waiting: dict[HTTP1ServerConnection, str] = {}  # address of each, the longest waiting first

    def start_request(self, server_conn: object, request_conn: httputil.HTTPConnection) -> httputil.HTTPMessageDelegate:
        connection = cast(HTTP1ServerConnection, server_conn)
        address = str(getattr(connection.context, "remote_ip", ""))
        self._waiting[connection] = address
        same = [other for other, its in self._waiting.items() if its == address]
        if len(same) > MAX_WAITING:
            self._close(same[0])
        elif sum(not each.stream.closed() for each in self._connections) > MAX_CONNECTIONS:
            self._close(next(iter(self._waiting)))
        request = super().start_request(server_conn, request_conn)
        limit = self.conn_params.max_body_size or 0
        return _Request(
            request, cast(HTTP1Connection, request_conn), lambda: self._waiting.pop(connection, None), limit
        )

    def _close(self, connection: HTTP1ServerConnection) -> None:
        del self._waiting[connection]  # now, as it ends only after others that have come by then
        connection.stream.close()

    def on_close(self, server_conn: object) -> None:
        self._waiting.pop(cast(HTTP1ServerConnection, server_conn), None)
        super().on_close(server_conn)


class _Request(httputil.HTTPMessageDelegate):
    """Passes a request on, unless its body is too large; calls `begun` when its headers are complete."""

    def __init__(
        self,
        request: httputil.HTTPMessageDelegate,
        connection: HTTP1Connection,
        begun: Callable[[], object],
        max_body_bytes: int,
    ) -> None:
        self._request, self._connection, self._begun, self._limit = request, connection, begun, max_body_bytes

    def headers_received(
        self, start_line: httputil.RequestStartLine | httputil.ResponseStartLine, headers: httputil.HTTPHeaders
    ) -> Any:
        self._begun()
        length = headers.get("Content-Length", "")
        if length.isascii() and length.isdigit() and int(length) > self._limit:
            stream = self._connection.detach()
            stream.write(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            stream.close()
            return None
        return self._request.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Any:
        return self._request.data_received(chunk)

    def finish(self) -> None:
        self._request.finish()

    def on_connection_close(self) -> None:
        self._request.on_connection_close()


class _Container(WSGIContainer):
    """Runs the application in threads; responses do not name the server."""

    def __init__(self, application: WSGIApplication, threads: Executor, port: int) -> None:
        super().__init__(application, threads)
        self._port = str(port)

    def __call__(self, request: httputil.HTTPServerRequest) -> None:
        assert request.connection is not None
        request.connection = _Nameless(request.connection)
        super().__call__(request)

    def environ(self, request: httputil.HTTPServerRequest) -> dict[str, Any]:
        """The variables of a request, with the port that it came to, whatever its `Host` header says."""
        return super().environ(request) | {"SERVER_PORT": self._port}


class _Nameless(httputil.HTTPConnection):
    """A connection whose responses have no `Server` header."""

    def __init__(self, connection: httputil.HTTPConnection) -> None:
        self._connection = connection

    def write_headers(
        self, start_line: Any, headers: httputil.HTTPHeaders, chunk: bytes | None = None
    ) -> asyncio.Future[None]:
        del headers["Server"]
        return self._connection.write_headers(start_line, headers, chunk)

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        return self._connection.write(chunk)

    def finish(self) -> None:
        self._connection.finish()


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
