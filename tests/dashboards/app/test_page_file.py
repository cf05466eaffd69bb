"""A whole page as one file: every figure and table that it shows, with where its numbers are from."""

from __future__ import annotations

from pathlib import Path

import pytest
from werkzeug.test import Client

from dashboards.app.app import make_app
from dashboards.data.frames import Frames
from dashboards.views.registry import VIEWS
from orchestrator.store import ResultStore, open_store
from tests.dashboards.stores import STRATEGIES, specs, write_store
from tests.examples import each


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    store = write_store(tmp_path_factory.mktemp("page") / "store", specs(seeds=(0, 1), strategies=STRATEGIES[:3]))
    return Client(make_app(Frames(store)).server.wsgi_app)


@each("name", [view.name for view in VIEWS.values() if view.parts], quick=2)
def test_every_page_with_figures_is_a_file_with_all_of_them(client: Client, name: str) -> None:
    answer = client.get(f"/page/{name}.html")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="permafrost-{name}.html"'
    view = next(view for view in VIEWS.values() if view.name == name)
    assert [f'<figure id="{part.name}">' in answer.text for part in view.parts] == [True] * len(view.parts)
    assert "<footer>sweep made-up (config " in answer.text


def test_the_first_page_begins_with_the_answers(client: Client) -> None:
    assert "train size 800" in client.get("/page/answer.html").text.partition("<figure")[0]


def test_the_file_shows_what_the_address_selects(client: Client) -> None:
    both, one = (client.get(f"/page/scores.html{search}").text for search in ("", "?size=200"))
    assert one.count("800") < both.count("800")


def test_a_page_that_there_is_not_is_not_found(client: Client) -> None:
    assert client.get("/page/nothing.html").status_code == 404


@each("address", ["/page/answer.html", "/export/depth-strip.csv"])
def test_a_store_without_a_sweep_has_no_files(tmp_path: Path, address: str) -> None:
    store: ResultStore = open_store(str(tmp_path / "empty"), must_exist=False)
    store.create()
    answer = Client(make_app(Frames(store)).server.wsgi_app).get(address)
    assert (answer.status_code, answer.text) == (404, "The store has no sweep yet.\n")
