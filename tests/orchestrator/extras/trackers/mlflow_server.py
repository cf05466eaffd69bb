"""A tracking server of MLflow, a process of its own: the whole package needs another pandas than ours."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from tests.server_programs import free_port, server_program

_PATIENCE_S = 120


@contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """The address of a server that keeps everything in a folder, until the end of the block."""
    executable, port = server_program("mlflow"), free_port()
    address = f"http://127.0.0.1:{port}"
    words = [executable, "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    words += [f"--backend-store-uri=sqlite:///{folder}/mlflow.db", f"--artifacts-destination={folder / 'artifacts'}"]
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("MLFLOW_", "PYTHON"))}
    environment |= {"MLFLOW_DISABLE_TELEMETRY": "true"}
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(words, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            _wait(address, server)
            yield address
        finally:
            server.terminate()
            server.wait(timeout=30)


def _wait(address: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with urlopen(f"{address}/health"):
                return
        except OSError:
            assert server.poll() is None, "the server ended; see its server.log"
            assert time.monotonic() < until, "the server does not answer"
        time.sleep(0.1)
