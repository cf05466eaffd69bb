"""What the environment asks for and does not get, files that are not served, errors, caches, compression."""

from __future__ import annotations

import gzip
import logging
import re
from urllib.parse import unquote

import pytest
from werkzeug.test import Client

from tests.dashboards.serving.visitors import CALLBACK, changed_to, one_visitor, small_app, visitor
from tests.examples import each

GZIP = {"Accept-Encoding": "gzip"}


def bundles(client: Client) -> list[str]:
    return re.findall(r'src="(/_dash-component-suites/[^"]+)"', client.get("/").text)


def test_no_developer_tools_or_debugger_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    names = "DEBUG UI PROPS_CHECK SERVE_DEV_BUNDLES HOT_RELOAD PRUNE_ERRORS VALIDATE_CALLBACKS"
    for name in names.split():
        monkeypatch.setenv(f"DASH_{name}", "true")
    monkeypatch.setenv("FLASK_DEBUG", "1")
    client = visitor()
    page = client.get("/").text
    assert '"ui":false' in page
    assert '"props_check":false' in page
    assert "hot_reload" not in page
    assert not [bundle for bundle in bundles(client) if ".dev." in bundle or not re.search(r"v\d", bundle)]
    answer = client.post(CALLBACK, json=changed_to("13"))
    assert (answer.status_code, answer.mimetype, "secret" in answer.text) == (500, "text/plain", False)


def test_a_failing_callback_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    visitor().post(CALLBACK, json=changed_to("13"))
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage() == f"POST {CALLBACK}: ValueError: a secret of the server"
    assert not record.exc_info


@each("body", [b"", b"{", b"[]", b"{}", b'{"output": "nothing.here"}', b"\xff", b"[" * 100_000])
def test_a_broken_callback_is_refused_in_a_line(body: bytes) -> None:
    answer = one_visitor().post(CALLBACK, data=body, content_type="application/json")
    assert (answer.status_code, answer.mimetype, answer.text.count("\n")) == (400, "text/plain", 1)


@each("part", ["output", "outputs", "inputs", "state", "changedPropIds"])
@each("forged", [None, 5, "x", [], {}, [{}], [[]], [{"id": 1, "property": None}], [{"id": {"a": []}, "value": 1}] * 9])
def test_a_forged_callback_is_refused_or_does_what_a_true_one_does(part: str, forged: object) -> None:
    asked = changed_to("1") | {part: forged}
    lacking = {key: value for key, value in asked.items() if key != part}
    assert {one_visitor().post(CALLBACK, json=body).status_code for body in (asked, lacking)} <= {200, 400}


@each("root", ["/assets/", "/_dash-component-suites/dash/", "/"])
@each("tail", ["../../../../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "..\\..\\etc\\passwd", "/etc/passwd",
     "dash.py", "../dash/dash.py", "x%00.js"])  # fmt: skip
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


def test_long_answers_are_compressed() -> None:
    client = visitor()
    bundle = bundles(client)[0]
    small, again = (client.get(bundle, headers=GZIP) for _ in range(2))
    whole = client.get(bundle, headers={"Accept-Encoding": "identity"})
    assert (small.headers["Content-Encoding"], whole.headers.get("Content-Encoding")) == ("gzip", None)
    assert gzip.decompress(small.data) == gzip.decompress(again.data) == whole.data
    assert {answer.headers["Vary"] for answer in (small, whole)} == {"Accept-Encoding"}
    answer = client.post(CALLBACK, json=changed_to("long"), headers=GZIP)
    assert b"value long" in gzip.decompress(answer.data)
    assert "Content-Encoding" not in client.post(CALLBACK, json=changed_to("1"), headers=GZIP).headers
