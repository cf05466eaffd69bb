"""Servers of other projects that tests start: what they need does not fit beside our pins, so they have a venv."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / ".venv" / "servers" / "bin"


def server_program(name: str) -> str:
    """Where a server is: in the folder that PERMAFROST_SERVERS names, or in the checkout's environment of servers.

    Without it the test that asks is skipped, or fails where PERMAFROST_REQUIRE_SERVERS is set (CI).
    """
    path = Path(os.environ.get("PERMAFROST_SERVERS", FOLDER)) / name
    if not path.exists():
        reason = f"no {name}: `make servers` installs the servers of other projects"
        assert not os.environ.get("PERMAFROST_REQUIRE_SERVERS"), reason
        pytest.skip(reason)
    return str(path)


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return when a port of loopback answers.

    Raises:
        AssertionError: The process ended before.
    """
    while process.poll() is None:
        with socket.socket() as asking:
            if asking.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"the server ended with exit code {process.returncode}")


@contextmanager
def nginx(configuration: Path, port: int, *options: str) -> Iterator[None]:
    """The distribution's nginx by a file of configuration, from when it answers at the port.

    Without it the test that asks is skipped, or fails where PERMAFROST_REQUIRE_NGINX is set (CI).
    """
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        reason = "nginx is not installed (apt install nginx-light)"
        assert not os.environ.get("PERMAFROST_REQUIRE_NGINX"), reason
        pytest.skip(reason)
    words = [program, "-p", str(configuration.parent), "-c", str(configuration), *options]
    with subprocess.Popen(words) as process:
        try:
            wait_for(port, process)
            yield
        finally:
            process.terminate()
