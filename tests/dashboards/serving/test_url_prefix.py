"""The dashboard below a path, as it answers a proxy that strips the prefix and one that keeps it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from werkzeug.test import Client

from dashboards.app.app import make_app
from dashboards.data.frames import Frames
from dashboards.serving.access import Access
from dashboards.serving.gate import secured
from dashboards.serving.server import Listening
from tests.dashboards.serving.visitors import LAN, TOKEN, one_visitor, small_app, visitor
from tests.dashboards.stores import STRATEGIES, specs, write_store
from tests.examples import each

NEAR: dict[str, Any] = {"base_url": "http://127.0.0.1:8050", "environ_base": {"REMOTE_ADDR": "127.0.0.1"}}
ANA = "/user/an%C3%A4%40x/proxy/8050"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    trials = specs(seeds=(0, 1), train_sizes=(200,), strategies=STRATEGIES[:2])
    store = write_store(tmp_path_factory.mktemp("below") / "store", trials)
    return Client(secured(make_app(Frames(store)), Access()))


def asked(client: Client, path: str, prefix: str = "") -> str:
    """The text of an answer; Dash escapes slashes in JSON."""
    headers = {"X-Forwarded-Prefix": prefix} if prefix else {}
    return client.get(path, **NEAR, headers=headers).text.replace(r"\u002f", "/")


def addresses(text: str) -> set[str]:
    return set(re.findall(r'"?\b(?:src|href|content|data-export)"?[=:] ?"(/[^"]*)', text))


@each("path", ["/", "/scores", "/_dash-layout", "/_dash-dependencies"])
def test_every_address_of_an_answer_is_below_the_prefix(client: Client, path: str) -> None:
    below, at_root = asked(client, path, ANA), asked(client, path)
    assert addresses(below) == {ANA + address for address in addresses(at_root)}
    assert below.replace(ANA, "") == at_root


def test_the_first_page_asks_for_its_scripts_below_the_prefix(client: Client) -> None:
    page = asked(client, "/", ANA)
    assert re.search(rf'"requests_pathname_prefix": ?"{ANA}/"', page)
    scripts = [address for address in addresses(page) if ".js" in address]
    assert len(scripts) > 5
    for script in scripts:
        with client.get(script, **NEAR, headers={"X-Forwarded-Prefix": ANA}) as answer:
            assert answer.status_code == 200


@each("path", ["/part/light/depth-strip", "/export/depth-strip.csv", "/page/scores.html", "/report.html"], quick=3)
def test_a_file_is_the_same_below_a_path_whether_the_proxy_takes_the_prefix_off_or_keeps_it(
    client: Client, path: str
) -> None:
    at_root = client.get(path, **NEAR)
    for sent in (ANA, "")[: 1 if path == "/report.html" else 2]:  # a report takes a second
        below = client.get(sent + path, **NEAR, headers={"X-Forwarded-Prefix": ANA})
        assert below.status_code == 200
        assert (below.mimetype, below.data) == (at_root.mimetype, at_root.data)


@each("header", [
     "//evil.example", "/a//b", "/../a", "/a/./b", "a", '/a"onload="x', "/a<b", "/%zz", "/a, /b", "/a?b", "/a#b",
     "/a\\b", "/a b", "http://evil.example/", "/" + "a" * 600])  # fmt: skip
def test_what_is_no_prefix_changes_nothing(header: str) -> None:
    client = one_visitor()
    assert client.get("/", **NEAR, headers={"X-Forwarded-Prefix": header}).data == client.get("/", **NEAR).data


def test_another_machine_does_not_say_where_the_dashboard_is() -> None:
    client = visitor(Access(host=LAN, token=TOKEN))
    headers = {"X-Forwarded-Prefix": "/p", "Authorization": f"Bearer {TOKEN}"}
    far = client.get("/", base_url=f"http://{LAN}", environ_base={"REMOTE_ADDR": "192.0.2.8"}, headers=headers)
    assert '"/p/' not in far.text
    assert '"/p/' in client.get("/", **NEAR, headers=headers).text


def test_a_prefix_that_was_set_counts_for_everybody_and_before_the_header() -> None:
    client = visitor(Access(host=LAN, token=TOKEN, url_prefix="/mine/"))
    headers = {"X-Forwarded-Prefix": "/p", "Authorization": f"Bearer {TOKEN}"}
    text = client.get("/mine/", base_url=f"http://{LAN}", headers=headers).text
    assert '"/mine/_dash' in text
    assert '"/p/' not in text


def test_the_cookie_is_for_the_path_alone_and_the_way_back_is_below_it() -> None:
    client = visitor(Access(token=TOKEN, url_prefix="/user/ana"))
    answer = client.get(f"//user/ana/../x?token={TOKEN}", **NEAR)
    assert answer.headers["Location"].startswith("/user/ana/")
    answer = client.get(f"/user/ana/scores?token={TOKEN}&size=5", **NEAR)
    assert answer.headers["Location"] == "/user/ana/scores?size=5"
    assert "Path=/user/ana" in answer.headers["Set-Cookie"].split("; ")


def test_the_address_that_is_told_is_below_the_prefix() -> None:
    with Listening(small_app(), Access(port=0, url_prefix="/p/")) as server:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/p/", server.url)
