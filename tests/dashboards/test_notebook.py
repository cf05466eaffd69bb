"""Figures of the dashboard for a notebook."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go
import pytest

from dashboards.notebook import figure
from orchestrator.store import ResultStore, open_store
from tests.dashboards.stores import specs, write_store
from trials.errors import ConfigError, NothingMatchedError


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    return write_store(tmp_path_factory.mktemp("figures") / "store", specs(seeds=range(3)))


def test_the_depth_curve_of_a_store_is_a_figure_that_plotly_accepts(store: ResultStore) -> None:
    drawn = figure(store=store)
    assert isinstance(drawn, go.Figure)
    assert {"□ □□□□□□<br>none", "□ ■■□□□□<br>first 2"} <= set(drawn.layout.xaxis.ticktext)
    assert figure(store=str(store.root)).to_plotly_json() == drawn.to_plotly_json()


def test_an_address_selects_what_it_shows(store: ResultStore) -> None:
    chosen = figure(store=store, url="?split=test&theme=dark")
    assert chosen.to_plotly_json() != figure(store=store).to_plotly_json()


def test_a_table_and_what_is_no_figure_are_refused(store: ResultStore) -> None:
    with pytest.raises(ConfigError, match="depth-table is a table"):
        figure("depth-table", store)
    with pytest.raises(ConfigError, match="depth: no such figure"):
        figure("depth", store)


def test_a_store_without_trials_has_nothing_to_show(tmp_path: Path) -> None:
    empty = open_store(str(tmp_path / "empty"), must_exist=False)
    empty.create()
    with pytest.raises(NothingMatchedError):
        figure(store=empty)
