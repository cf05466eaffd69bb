"""The token: who has it gets in, by three ways; who has not is told how, and not too often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import Client

from dashboards.serving.access import Access
from dashboards.serving.login import ADDRESSES, TRIES, WINDOW_S, Token, WrongTries, redirect_page
from tests.dashboards.serving.visitors import CALLBACK, LAN, TOKEN, changed_to, visitor
from tests.examples import each

HTML = {"Accept": "text/html"}
ACCESS = Access(host=LAN, token=TOKEN)


def outsider() -> Client:
    return visitor(ACCESS)


@each(
    "path",
    ["/", "/_dash-layout", "/_dash-dependencies", "/assets/x", "/_favicon.ico", "/_dash-component-suites/dash/x.js"],
)
def test_nothing_is_answered_without_the_token(path: str) -> None:
    answer = outsider().get(path)
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="permafrost"')
    assert "Authorization: Bearer" in answer.text


def test_no_callback_runs_without_it() -> None:
    assert outsider().post(CALLBACK, json=changed_to("7")).status_code == 401


def test_a_loopback_server_asks_for_a_token_that_is_set() -> None:
    assert visitor(Access(token=TOKEN)).get("/").status_code == 401


@each("given_token", ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\udcff"])
def test_a_wrong_bearer_is_refused(given_token: str) -> None:
    assert outsider().get("/", headers={"Authorization": f"Bearer {given_token}"}).status_code == 401


@pytest.mark.parametrize("header", [f"Basic {TOKEN}", f"Token {TOKEN}", TOKEN])
def test_another_scheme_is_no_bearer(header: str) -> None:
    assert outsider().get("/", headers={"Authorization": header}).status_code == 401


def test_a_bearer_gets_in_and_gets_no_cookie() -> None:
    answer = outsider().get("/", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, "Set-Cookie" in answer.headers) == (200, False)


def test_an_address_with_the_token_sets_the_cookie_and_goes_on_without_it() -> None:
    client = outsider()
    answer = client.get(f"/depth?size=500&token={TOKEN}&x=a%26b", headers=HTML)
    assert 'content="0; url=/depth?size=500&amp;x=a%26b"' in answer.text
    assert TOKEN not in answer.text + str(answer.headers)
    assert client.get("/depth?size=500").status_code == 200


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites() -> None:
    cookie = outsider().get(f"/?token={TOKEN}").headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))


def test_the_form_leads_to_the_page_that_was_asked_for() -> None:
    client = outsider()
    asked = client.get("/depth?size=500", headers=HTML)
    assert '<form method="post">' in asked.text
    answer = client.post("/depth?size=500", data={"token": TOKEN}, headers={"Origin": "http://localhost"})
    assert 'url=/depth?size=500"' in answer.text
    assert client.get("/depth").status_code == 200


def test_the_form_of_another_site_is_refused() -> None:
    assert outsider().post("/", data={"token": TOKEN}, headers={"Origin": "http://evil"}).status_code == 403


def test_a_cookie_is_worth_nothing_at_another_server_of_the_same_token() -> None:
    one, other = Token(TOKEN), Token(TOKEN)
    assert one.signed(one.cookie)
    assert not other.signed(one.cookie)
    assert not one.signed(TOKEN)


@given(st.text(min_size=1))
def test_the_way_on_stays_on_this_server_and_inside_its_attribute(path: str) -> None:
    page = redirect_page("/" + path)
    assert page.count('"') == redirect_page("/").count('"')
    assert page.count("<") == redirect_page("/").count("<")


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "///evil.example"])
def test_no_address_leads_to_another_server(path: str) -> None:
    answer = outsider().open(environ_overrides={"PATH_INFO": path, "QUERY_STRING": f"token={TOKEN}"})
    assert "url=/evil.example" in answer.text


def test_who_guesses_has_to_wait_and_the_right_token_does_not() -> None:
    client = outsider()
    guess = {"Authorization": "Bearer no"}
    statuses = [client.get("/", headers=guess).status_code for _ in range(TRIES + 2)]
    assert statuses == [401] * TRIES + [429] * 2
    waiting = client.get("/", headers=guess)
    assert (waiting.status_code, 0 < int(waiting.headers["Retry-After"]) <= WINDOW_S) == (429, True)
    assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get(f"/?token={TOKEN}").status_code == 200
    assert client.get("/", headers=guess, environ_base={"REMOTE_ADDR": "192.0.2.99"}).status_code == 401


def test_a_signed_visitor_is_not_shut_out_by_guesses_from_the_same_address() -> None:
    client = outsider()
    client.get(f"/?token={TOKEN}")
    for _ in range(TRIES):
        client.get("/?token=wrong")
    assert client.get("/").status_code == 200


def test_a_wait_ends_and_memory_is_bounded() -> None:
    now = [0.0]
    tries = WrongTries(lambda: now[0])
    for _ in range(TRIES):
        tries.add("a")
    assert tries.wait_s("a") == WINDOW_S
    now[0] = WINDOW_S
    assert tries.wait_s("a") == 0
    for i in range(3 * ADDRESSES):
        tries.add(str(i))
    assert len(tries) == ADDRESSES
