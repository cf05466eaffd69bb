"""The distribution's nginx as a reverse proxy on loopback, below whose paths a dashboard is shown."""

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

_CONFIGURATION = """
daemon off; pid {folder}/pid; error_log stderr;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    proxy_set_header Host $http_host;
    location / {{ return 404; }}
    {locations}
  }}
}}
"""


def program() -> str:
    """Where nginx is; skips the test where it is not installed."""
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        reason = "nginx is not installed (apt install nginx-light)"
        assert not os.environ.get("PERMAFROST_REQUIRE_NGINX"), reason
        pytest.skip(reason)
    return found


@contextmanager
def proxying(folder: Path, locations: str) -> Iterator[str]:
    """The origin of a proxy with these locations; it answers 404 to whatever is outside of them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configuration = folder / "nginx.conf"
    configuration.write_text(_CONFIGURATION.format(folder=folder, port=port, locations=locations))
    with subprocess.Popen([program(), "-p", str(folder), "-c", str(configuration)]) as process:
        try:
            _wait_for(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"nginx has ended with {process.returncode}")
