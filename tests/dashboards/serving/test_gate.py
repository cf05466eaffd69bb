"""Requests that must not get through, and what those that do are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from dashboards.serving.access import Access
from dashboards.serving.gate import MAX_BODY_BYTES
from tests.dashboards.serving.visitors import CALLBACK, LAN, TOKEN, changed_to, one_visitor, visitor
from tests.examples import each

ON_LAN = Access(host=LAN, token=TOKEN, trusted_hosts=("Sweeps.Example.Org",))


def test_who_asks_on_loopback_gets_the_page_and_its_callbacks() -> None:
    client = one_visitor()
    assert client.get("/", base_url="http://127.0.0.1:8050").status_code == 200
    answer = client.post(CALLBACK, json=changed_to("7"))
    assert answer.json == {"response": {"out": {"children": "value 7"}}, "multi": True}


@each("host", ["localhost", "localhost:9", "127.0.0.1:8050", "LOCALHOST:1"])
def test_a_loopback_name_is_answered(host: str) -> None:
    assert one_visitor().get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["[::1]:8050", "[::1]", "localhost"])
def test_so_are_those_of_ipv6(host: str) -> None:
    assert visitor(Access(host="::1")).get("/", headers={"Host": host}).status_code == 200


@each("host", [
     "evil.example", "127.0.0.1.evil.example:80", "localhost.", "evil@localhost", "localhost:80:80", "127.1", "[::1]",
     "localhost, evil.example", "2130706433", LAN, ""])  # fmt: skip
def test_another_name_is_refused_against_dns_rebinding(host: str) -> None:
    answer = one_visitor().get("/_dash-layout", headers={"Host": host})
    assert (answer.status_code, "--trusted-host" in answer.text) == (400, True)


@each("host", [LAN, f"{LAN}:8050", "sweeps.example.org", "localhost"])
def test_the_bound_host_and_the_trusted_ones_are_answered(host: str) -> None:
    assert one_visitor(ON_LAN).get("/", headers={"Host": host, "Authorization": f"Bearer {TOKEN}"}).status_code == 200


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30))
def test_no_odd_host_gets_through(host: str) -> None:
    name = host.lower().rpartition(":")[0] or host.lower()
    status = one_visitor().get("/", headers={"Host": host}).status_code
    assert status == 400 or name in ("localhost", "127.0.0.1")


@each(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_post_from_another_origin_is_refused(headers: dict[str, str]) -> None:
    answer = one_visitor().post(CALLBACK, json=changed_to("7"), headers=headers)
    assert (answer.status_code, "another origin" in answer.text) == (403, True)


@each(
    "headers", [{"Origin": "http://localhost"}, {"Sec-Fetch-Site": "same-origin"}, {"Origin": "https://localhost"}, {}]
)
def test_a_post_from_our_own_page_or_from_a_program_is_answered(headers: dict[str, str]) -> None:
    assert one_visitor().post(CALLBACK, json=changed_to("7"), headers=headers).status_code == 200


def test_a_link_from_elsewhere_may_be_followed_but_nothing_embedded_or_read() -> None:
    client = one_visitor()
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/depth?size=500", headers=link).status_code == 200
    assert client.get("/", headers=link | {"Sec-Fetch-Dest": "iframe"}).status_code == 403
    assert client.get("/_dash-layout", headers=link | {"Sec-Fetch-Mode": "no-cors"}).status_code == 403


@each("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_other_methods_are_refused(method: str) -> None:
    assert one_visitor().open("/", method=method).status_code == 405


@each("path", ["/", "/_dash-layout", "/_mcp", "//_dash-update-component", "/_login"])
def test_only_callbacks_are_posted(path: str) -> None:
    assert one_visitor().post(path, json={}).status_code == 405


def test_a_huge_body_is_refused_before_it_is_read() -> None:
    class Unread:
        def read(self, *_: object) -> bytes:
            raise AssertionError("the body was read")

    client = one_visitor()
    environ = {"CONTENT_LENGTH": str(MAX_BODY_BYTES + 1), "wsgi.input": Unread(), "CONTENT_TYPE": "application/json"}
    answer = client.post(CALLBACK, environ_overrides=environ)
    assert (answer.status_code, "requests are limited to 2 MiB" in answer.text) == (413, True)


@each("body", [b"", b"{", b"[]", b"{}", b'{"output": "nothing.here"}', b"\xff", b"[" * 100_000])
def test_a_broken_callback_is_a_bad_request_in_words(body: bytes) -> None:
    answer = one_visitor().post(CALLBACK, data=body, content_type="application/json")
    assert (answer.status_code, answer.mimetype) == (400, "text/plain")
    assert "Traceback" not in answer.text


@each(
    "access, method, path, status",
    [
        (Access(), "GET", "/", 200),
        (Access(), "HEAD", "/", 200),
        (Access(), "GET", "/_dash-layout", 200),
        (Access(), "GET", "/assets/none.css", 404),
        (Access(), "GET", "/_dash-component-suites/dash/none.js", 404),
        (Access(), "POST", "/", 405),
        (Access(), "POST", CALLBACK, 415),
        (ON_LAN, "GET", "/", 401),
        (ON_LAN, "GET", "/?token=wrong", 401),
        (ON_LAN, "GET", f"/?token={TOKEN}", 200),
    ],
)
def test_every_answer_carries_the_headers(access: Access, method: str, path: str, status: int) -> None:
    answer = one_visitor(access).open(path, method=method)
    assert answer.status_code == status
    assert_headers(answer, access)


def test_so_do_a_refused_name_and_a_failed_callback() -> None:
    client = one_visitor()
    refused, failed = client.get("/", headers={"Host": "evil"}), client.post(CALLBACK, json=changed_to("13"))
    assert (refused.status_code, failed.status_code) == (400, 500)
    assert_headers(refused, Access())
    assert_headers(failed, Access())


def assert_headers(answer: TestResponse, access: Access) -> None:
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["Permissions-Policy"].startswith("camera=()")
    assert ("Cross-Origin-Opener-Policy" in answer.headers) == access.on_loopback
