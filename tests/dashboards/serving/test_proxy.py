"""The proxy of the documents before a dashboard."""

from __future__ import annotations

import http.client
import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dashboards.serving.access import Access
from dashboards.serving.server import Listening
from tests.dashboards.serving.visitors import TOKEN, Reply, small_app
from tests.docs.snippets import CHECKOUT, blocks
from tests.server_programs import free_port, nginx

NAME = "dashboard.example.org"


@contextmanager
def proxy(folder: Path, url: str) -> Iterator[int]:
    """The port of an nginx before a dashboard, by the file of the documents with paths and ports of the test."""
    port = free_port()
    words = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={NAME}".split()
    subprocess.run(["openssl", *words, "-keyout", "key", "-out", "pem"], cwd=folder, check=True, capture_output=True)
    page = blocks(CHECKOUT / "docs" / "pages" / "howto" / "dashboard.md")
    (text,) = (block.text for block in page if block.title == "nginx.conf")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    for old, new in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/ssl/certs/dashboard.pem": f"{folder}/pem",
        "/etc/ssl/private/dashboard.key": f"{folder}/key",
        "http://127.0.0.1:8050": url.rstrip("/"),
        "access_log off;": "access_log off; " + " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds),
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "nginx.conf").write_text(text)
    options = f"daemon off; pid {folder}/pid; error_log {folder}/errors;" + ("user root;" if os.getuid() == 0 else "")
    with nginx(folder / "nginx.conf", port, "-g", options):
        yield port


def encryption() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def ask(port: int, path: str = "/", **headers: str) -> Reply:
    """One request of a visitor, from 127.0.0.1."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=encryption(), timeout=60)
    with closing(connection):
        connection.request("GET", path, headers={"Host": f"{NAME}:{port}", **headers})
        answer = connection.getresponse()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    access = Access(port=0, token=TOKEN, trusted_hosts=(NAME,))
    with Listening(small_app(), access) as server, proxy(tmp_path, server.url) as found:
        yield found


def test_a_dashboard_is_visited_through_the_proxy_of_the_documents(port: int) -> None:
    right = {"Authorization": f"Bearer {TOKEN}", "Origin": f"https://{NAME}:{port}"}
    assert ask(port).status == 401
    assert [ask(port, path, **right).status for path in ("/", "/_dash-layout", "/none?token=x")] == [200, 200, 200]
    assert ask(port, Host="127.0.0.1:abc").status == 400
