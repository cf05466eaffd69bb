"""What is kept of a page between two questions, and the address at which a part is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from dashboards.app.app import make_app
from dashboards.app.callbacks import PageCache
from dashboards.data.frames import Frames
from dashboards.views.depth_strip import STRIP
from orchestrator.store import ResultStore
from tests.dashboards.stores import Invented, append, specs, write_store
from tests.examples import each

TRIALS = specs(seeds=(0, 1, 2))


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return write_store(tmp_path / "store", TRIALS, Invented(state=lambda spec: "completed" if spec.seed < 2 else None))


def test_a_part_is_computed_once_for_a_query_and_a_scheme(store: ResultStore) -> None:
    cache = PageCache(Frames(store))
    first = cache.drawn(STRIP, "", "light")
    assert cache.drawn(STRIP, "?theme=dark&pause=1", "light") is first
    assert cache.drawn(STRIP, "", "dark") is not first
    assert cache.drawn(STRIP, "?split=test", "light") is not first


def test_new_rows_are_drawn_and_keep_what_a_person_did_to_the_figure(store: ResultStore) -> None:
    cache = PageCache(Frames(store))
    before = cache.drawn(STRIP, "", "light").figure
    append(store, TRIALS, Invented(state=lambda spec: "completed" if spec.seed == 2 else None))
    after = cache.drawn(STRIP, "", "light").figure
    assert before is not None
    assert after is not None
    assert before["data"] != after["data"]
    assert before["layout"]["uirevision"] == after["layout"]["uirevision"] != ""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    store = write_store(tmp_path_factory.mktemp("asked") / "store", TRIALS)
    return Client(make_app(Frames(store)).server.wsgi_app)


@pytest.mark.parametrize(
    ("address", "has"),
    [
        ("/part/light/depth-strip?split=test", {"graph": True, "table": False}),
        ("/part/dark/depth-strip/opened", {"graph": True, "table": True}),
        ("/part/light/depth-table", {"graph": False, "table": True}),
    ],
)
def test_a_part_has_an_address(client: Client, address: str, has: dict[str, bool]) -> None:
    answer = client.get(address)
    found: dict[str, Any] = answer.get_json()
    assert answer.status_code == 200
    assert {key: found[key] is not None for key in found} == has


@each(
    "address",
    ["/part/light/nothing", "/part/blue/depth-strip", "/part/light/depth-strip/open", "/part/light/..%2Fx"],
)
def test_what_is_no_part_is_not_found(client: Client, address: str) -> None:
    assert b'"graph"' not in client.get(address).data


@each("name", ["nothing.csv", "depth-strip.exe", "..%5C..%5Cpyproject.toml", "depth-strip.csv.toml"])
def test_an_export_is_looked_up_and_never_joined_to_a_path(client: Client, name: str) -> None:
    assert client.get(f"/export/{name}").status_code == 404
