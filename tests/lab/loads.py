"""A dashboard under the three loads that once kept visitors waiting: `attacks` says what came of each."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

SHIPPED = Path(__file__).parents[2] / "configs" / "freezebench" / "store"
COMMAND = str(Path(sys.executable).with_name("permafrost"))
MOST_S, MOST_MB = 5, 1_000  # of a newcomer's first sentence, and of the server


def load(make: Callable[[str, threading.Event], None]) -> Callable[[Path], str]:
    """The most seconds until a newcomer has the first sentence, and the server's memory, while others ask it."""

    def run(folder: Path) -> str:
        log = folder / "log"
        command = [COMMAND, "dashboard", str(SHIPPED), "--port", "0", "--no-token"]
        with log.open("w") as said, subprocess.Popen(command, stdout=said, stderr=said) as server:
            while (found := re.search(r"http://\S+/", log.read_text())) is None:
                time.sleep(0.1)
            process, over, waits = psutil.Process(server.pid), threading.Event(), list[float]()
            attackers = threading.Thread(target=make, args=(found[0], over))
            attackers.start()
            for _ in range(3):
                time.sleep(2)
                began = time.monotonic()
                with urllib.request.urlopen(found[0], timeout=100) as page:
                    assert b"To lose at most" in page.read()
                waits.append(time.monotonic() - began)
            n_mb = process.memory_info().rss >> 20
            over.set()
            attackers.join()
            server.terminate()
        within = "within" if max(waits) <= MOST_S and n_mb <= MOST_MB else "BEYOND"
        return f"{within} the aims: {max(waits):.1f} s, {n_mb} MB"

    return run


def connections(url: str, path: str, n: int) -> Iterator[socket.socket]:
    """Connections that asked for something and read nothing."""
    place = urlsplit(url)
    for number in range(n):
        packed = "Accept-Encoding: gzip\r\n" * (number % 2)
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect((place.hostname, place.port))
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n{packed}\r\n".encode())
        yield one


def reports(url: str, over: threading.Event) -> None:
    """Twenty reports that nobody waits for."""
    for one in connections(url, "/report.html?sweep=freezebench-core", 20):
        one.close()
    over.wait()


def slow_readers(url: str, over: threading.Event) -> None:
    """Three hundred readers of the largest bundle."""
    with urllib.request.urlopen(url) as page:
        bundle = re.findall(r'href="(/[^"]*plotly-cartesian-[^"]*)"', page.read().decode())[0]
    held = [*connections(url, bundle, 300)]
    over.wait()
    for one in held:
        one.close()


def conditions(url: str, over: threading.Event) -> None:
    """Requests of the grid with 20,000 conditions, one after the other."""
    score = {"filterType": "number", "operator": "OR", "conditions": [{"type": "equals", "filter": 0.5}] * 20_000}
    asked = {"startRow": 0, "endRow": 100, "sortModel": [], "filterModel": {"score": score}}
    page = {"path": "/trials", "search": "?sweep=freezebench-core", "scheme": "light"}
    given = [{"id": "trials-grid", "property": "getRowsRequest", "value": asked}]
    body: dict[str, Any] = {"output": "trials-grid.getRowsResponse", "inputs": given, "changedPropIds": []}
    body["outputs"] = {"id": "trials-grid", "property": "getRowsResponse"}
    body["state"] = [{"id": "state", "property": "data", "value": page}]
    callback = f"{url}_dash-update-component"
    request = urllib.request.Request(callback, json.dumps(body).encode(), {"Content-Type": "application/json"})
    while not over.wait(0.1):
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(request, timeout=100).close()
