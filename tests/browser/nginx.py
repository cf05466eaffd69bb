"""The distribution's nginx as a reverse proxy on loopback, below whose paths a dashboard is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server_programs import free_port, nginx

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


@contextmanager
def proxying(folder: Path, locations: str) -> Iterator[str]:
    """The origin of a proxy with these locations; it answers 404 to whatever is outside of them."""
    port, configuration = free_port(), folder / "nginx.conf"
    configuration.write_text(_CONFIGURATION.format(folder=folder, port=port, locations=locations))
    with nginx(configuration, port):
        yield f"http://127.0.0.1:{port}"
