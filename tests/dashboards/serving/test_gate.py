"""Requests that must not get through, what those that do are told, and the three ways to present the token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import Client, TestResponse

from dashboards.serving.access import Access
from dashboards.serving.gate import FOR_EVER, cache_control
from tests.dashboards.serving.visitors import CALLBACK, LAN, TOKEN, changed_to, one_visitor, visitor
from tests.examples import each

ON_LAN = Access(host=LAN, token=TOKEN, trusted_hosts=("Sweeps.Example.Org",))
HTML = {"Accept": "text/html"}


def outsider() -> Client:
    return visitor(Access(token=TOKEN))


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


@each("method, path", [("PUT", "/"), ("DELETE", "/"), ("OPTIONS", "/"), ("TRACE", "/"), ("POST", "/"),
     ("POST", "/_dash-layout"), ("POST", "/_mcp"), ("POST", "//_dash-update-component")])  # fmt: skip
def test_nothing_but_callbacks_is_written_to(method: str, path: str) -> None:
    assert one_visitor().open(path, method=method).status_code == 405


@each(
    "path",
    ["/", "/_dash-layout", "/_dash-dependencies", "/assets/x", "/_favicon.ico", "/_dash-component-suites/dash/x.js"],
)
def test_nothing_is_answered_without_the_token(path: str) -> None:
    answer = outsider().get(path)
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="permafrost"')
    assert "Authorization: Bearer" in answer.text
    assert outsider().post(CALLBACK, json=changed_to("7")).status_code == 401


@each("header", [*(f"Bearer {token}" for token in ("", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\udcff")),
     f"Basic {TOKEN}", f"Token {TOKEN}", TOKEN])  # fmt: skip
def test_a_wrong_bearer_or_another_scheme_is_refused(header: str) -> None:
    assert outsider().get("/", headers={"Authorization": header}).status_code == 401


def test_a_bearer_gets_in_and_gets_no_cookie() -> None:
    answer = outsider().get("/", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, "Set-Cookie" in answer.headers) == (200, False)


def test_an_address_with_the_token_sets_the_cookie_and_goes_on_without_it() -> None:
    client = outsider()
    answer = client.get(f"/depth?size=500&token={TOKEN}&x=a%26b", headers=HTML)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/depth?size=500&x=a%26b")
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(answer.headers["Set-Cookie"].split("; "))
    assert TOKEN not in answer.text + str(answer.headers)
    assert client.get("/depth?size=500").status_code == 200


def test_the_form_leads_to_the_page_that_was_asked_for() -> None:
    client = outsider()
    asked = client.get("/depth?size=500", headers=HTML)
    assert '<form method="post">' in asked.text
    assert client.post("/depth", data={"token": "wrong"}).status_code == 401
    assert client.post("/depth", data={"token": TOKEN}, headers={"Origin": "http://evil"}).status_code == 403
    answer = client.post("/depth?size=500", data={"token": TOKEN}, headers={"Origin": "http://localhost"})
    assert answer.headers["Location"] == "/depth?size=500"
    assert client.get("/depth").status_code == 200


def test_a_cookie_is_worth_nothing_at_another_server_of_the_same_token() -> None:
    one, other = outsider(), outsider()
    cookie = one.get(f"/?token={TOKEN}").headers["Set-Cookie"].partition(";")[0]
    assert one.get("/").status_code == 200
    assert other.get("/", headers={"Cookie": cookie}).status_code == 401


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "///evil.example"])
def test_no_address_leads_to_another_server(path: str) -> None:
    answer = outsider().open(environ_overrides={"PATH_INFO": path, "QUERY_STRING": f"token={TOKEN}"})
    assert answer.headers["Location"].startswith("/evil.example")


@each(
    "access, method, path, status",
    [
        (Access(), "GET", "/", 200),
        (Access(), "HEAD", "/", 200),
        (Access(), "GET", "/assets/none.css", 404),
        (Access(), "GET", "/_dash-component-suites/dash/none.js", 404),
        (Access(), "POST", "/", 405),
        (Access(), "POST", CALLBACK, 415),
        (ON_LAN, "GET", "/", 401),
        (ON_LAN, "GET", f"/?token={TOKEN}", 303),
    ],
)
def test_every_answer_carries_the_headers(access: Access, method: str, path: str, status: int) -> None:
    answer = one_visitor(access).open(path, method=method)
    assert answer.status_code == status
    assert_headers(answer)


def test_so_do_a_refused_name_and_a_failed_callback() -> None:
    client = one_visitor()
    refused, failed = client.get("/", headers={"Host": "evil"}), client.post(CALLBACK, json=changed_to("13"))
    assert (refused.status_code, failed.status_code) == (400, 500)
    assert_headers(refused)
    assert_headers(failed)


def assert_headers(answer: TestResponse) -> None:
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize(("query", "kept"), [("v=4.4.0", FOR_EVER), ("", "private, no-cache")])
def test_the_icon_is_kept_as_long_as_its_address(query: str, kept: str) -> None:
    assert cache_control("_favicon.ico", query, 200) == kept
