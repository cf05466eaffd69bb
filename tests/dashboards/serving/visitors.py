"""A small dashboard, and visitors who ask it for things."""

from __future__ import annotations

import functools
import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import dash
from dash import Input, Output, dcc, html
from werkzeug.test import Client

from dashboards.serving.access import Access
from dashboards.serving.gate import secured

TOKEN = "correct-horse-battery-staple"
CALLBACK = "/_dash-update-component"
LAN = "192.0.2.7"  # kept for documentation (RFC 5737), so nobody's


def small_app() -> dash.Dash:
    """A control that says its value in another place; its callback fails at `13` and takes an hour at `slow`."""
    app = dash.Dash(__name__, use_pages=False)
    app.layout = html.Div([dcc.Input(id="in", value="0"), html.Div(id="out"), dcc.Store(id="kept")])

    @app.callback(Output("out", "children"), Input("in", "value"))  # type: ignore[untyped-decorator]
    def say(value: str) -> str:
        if value == "13":
            raise ValueError("a secret of the server")
        time.sleep(3600 if value == "slow" else 0)
        return f"value {value}" * (5_000 if value == "long" else 1)

    app.clientside_callback("function (value) { return value; }", Output("kept", "data"), Input("in", "value"))
    return app


def changed_to(value: str) -> dict[str, Any]:
    """What a browser posts to the callback."""
    inputs = [{"id": "in", "property": "value", "value": value}]
    outputs = {"id": "out", "property": "children"}
    return {"output": "out.children", "outputs": outputs, "inputs": inputs, "changedPropIds": ["in.value"], "state": []}


def visitor(access: Access | None = None, app: dash.Dash | None = None) -> Client:
    """A client of the app behind its gate, without a socket between."""
    return Client(secured(app or small_app(), access or Access()))


@functools.cache
def one_visitor(access: Access | None = None) -> Client:
    """The same for all who ask nothing that could stay."""
    return visitor(access)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def ask(url: str, path: str = "/", *, method: str = "GET", **headers: str) -> Reply:
    """One request over a socket; the path goes out as it stands."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


_PROGRAM = """
import sys
from dashboards.serving.access import read_access
from dashboards.serving.server import serve
from orchestrator.config.console import say
from tests.dashboards.serving.visitors import small_app
from trials.errors import PermafrostError
try:
    sys.exit(serve(small_app(), read_access(port=0, no_token=len(sys.argv) > 1), say))
except PermafrostError as error:
    sys.exit(print(error, file=sys.stderr) or error.exit_code)
"""


@contextmanager
def program(*words: str) -> Iterator[subprocess.Popen[str]]:
    """The server as a process of its own, as a command runs it; killed if it outlasts the block."""
    command = [sys.executable, "-c", _PROGRAM, *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def url_of(process: subprocess.Popen[str]) -> str:
    """The address that the program tells on stderr."""
    assert process.stderr is not None
    line = process.stderr.readline()
    return next((word for word in line.split() if word.startswith("http://")), line)


class End(NamedTuple):
    code: int
    stdout: str
    stderr: str


def ended_by(process: subprocess.Popen[str], number: signal.Signals) -> End:
    """How the program goes when it gets the signal."""
    process.send_signal(number)
    code = process.wait()
    assert process.stdout is not None
    assert process.stderr is not None
    return End(code, process.stdout.read(), process.stderr.read())


def other_local_address() -> str | None:
    """An address of this machine that is not loopback, if it has one. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((LAN, 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
        return None if address.startswith("127.") else address
