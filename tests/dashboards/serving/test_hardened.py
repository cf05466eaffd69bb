"""What the environment asks for and does not get, files that are not served, errors, caches, compression."""

from __future__ import annotations

import gzip
import logging
import re
from urllib.parse import unquote

import pytest
from werkzeug.test import Client

from dashboards.serving.access import Access
from dashboards.serving.response_headers import FOR_EVER, cache_control
from tests.dashboards.serving.visitors import CALLBACK, LAN, TOKEN, changed_to, one_visitor, small_app, visitor
from tests.examples import each

ON_LAN = Access(host=LAN, token=TOKEN)
BEARER = {"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "gzip"}


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that switches everything on."""
    names = "DEBUG UI PROPS_CHECK SERVE_DEV_BUNDLES HOT_RELOAD PRUNE_ERRORS VALIDATE_CALLBACKS MCP_ENABLED"
    for name in names.split():
        monkeypatch.setenv(f"DASH_{name}", "true")
    monkeypatch.setenv("DASH_MCP_PATH", "tools/mcp")
    monkeypatch.setenv("FLASK_DEBUG", "1")
    monkeypatch.setenv("FLASK_ENV", "development")
    monkeypatch.setenv("WERKZEUG_DEBUG_PIN", "off")


def bundles(client: Client, **headers: str) -> list[str]:
    return re.findall(r'src="(/_dash-component-suites/[^"]+)"', client.get("/", headers=headers).text)


@pytest.mark.usefixtures("hostile")
def test_no_developer_tools_whatever_the_environment_says() -> None:
    client = visitor()
    page = client.get("/").text
    assert '"ui":false' in page
    assert '"props_check":false' in page
    assert "hot_reload" not in page
    assert not [bundle for bundle in bundles(client) if ".dev." in bundle or not re.search(r"v\d", bundle)]


@pytest.mark.usefixtures("hostile")
def test_no_debugger_whatever_the_environment_says(caplog: pytest.LogCaptureFixture) -> None:
    client = visitor()
    answer = client.post(CALLBACK, json=changed_to("13"))
    assert (answer.status_code, answer.mimetype) == (500, "text/plain")
    assert "secret" not in answer.text
    assert "Server-Timing" not in answer.headers
    assert client.get("/?__debugger__=yes&cmd=resource&f=debugger.js").mimetype == "text/html"
    assert client.get("/console").text == client.get("/").text  # any page of the dashboard, no console


@pytest.mark.usefixtures("hostile")
@each("method", ["GET", "POST", "DELETE"])
@each("path", ["/_mcp", "/tools/mcp", "/tools/mcp/"])
def test_no_endpoint_for_language_models_whatever_the_environment_says(method: str, path: str) -> None:
    answer = visitor().open(path, method=method, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert answer.status_code in (404, 405) or answer.mimetype == "text/html"
    assert "jsonrpc" not in answer.text


def test_a_failing_callback_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    visitor().post(CALLBACK, json=changed_to("13"))
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage() == f"POST {CALLBACK}: ValueError: a secret of the server"
    assert not record.exc_info


@each("root", ["/assets/", "/_dash-component-suites/dash/", "/_dash-component-suites/", "/"])
@each("tail", ["../../../../../../etc/passwd", "%2e%2e/%2e%2e/%2e%2e/etc/passwd", "..%2f..%2f..%2fetc%2fpasswd",
     "....//....//etc/passwd", "..\\..\\etc\\passwd", "/etc/passwd", "dash.py", "../dash/dash.py",
     "x%00.js"])  # fmt: skip
def test_no_path_leaves_its_folder(root: str, tail: str) -> None:
    answer = one_visitor().open(environ_overrides={"PATH_INFO": unquote(root + tail)})
    assert "root:" not in answer.text
    assert "import " not in answer.text
    assert answer.status_code == 404 or answer.mimetype == "text/html"


def test_bundles_are_kept_for_ever_and_results_never() -> None:
    client = visitor()
    kept = {client.get(bundle).headers["Cache-Control"] for bundle in bundles(client)}
    assert kept == {"private, max-age=31536000, immutable"}
    plain = client.get(re.sub(r"\.v[\w-]+m\w+", "", bundles(client)[-1]))
    assert plain.headers["Cache-Control"] == "private, no-cache"
    assert "ETag" in plain.headers
    assert client.post(CALLBACK, json=changed_to("1")).headers["Cache-Control"] == "no-store"


def test_the_policy_lists_the_inline_scripts_of_the_page() -> None:
    app = small_app()
    policy = visitor(app=app).get("/").headers["Content-Security-Policy"]
    assert len(app.csp_hashes()) == 2
    assert all(digest in policy for digest in app.csp_hashes())


@pytest.mark.parametrize("access", [Access(), ON_LAN])
def test_long_answers_are_compressed(access: Access) -> None:
    client = visitor(access)
    bundle = bundles(client, Authorization=BEARER["Authorization"])[0]
    small, again = (client.get(bundle, headers=BEARER) for _ in range(2))
    whole = client.get(bundle, headers=BEARER | {"Accept-Encoding": "identity"})
    assert (small.headers["Content-Encoding"], whole.headers.get("Content-Encoding")) == ("gzip", None)
    assert gzip.decompress(small.data) == gzip.decompress(again.data) == whole.data
    assert {answer.headers["Vary"] for answer in (small, whole)} == {"Accept-Encoding"}
    answer = client.post(CALLBACK, json=changed_to("long"), headers=BEARER)
    assert b"value long" in gzip.decompress(answer.data)
    assert "Content-Encoding" not in client.post(CALLBACK, json=changed_to("1"), headers=BEARER).headers


@pytest.mark.parametrize(("query", "kept"), [("v=4.4.0", FOR_EVER), ("", "private, no-cache")])
def test_the_icon_is_kept_as_long_as_its_address(query: str, kept: str) -> None:
    assert cache_control("_favicon.ico", query, 200) == kept
