"""Every part of these views with selections that have little in them, or what does not belong into a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dashboards.data.selection import Selection
from dashboards.views import choose, cost, curves, depth, factors, published, tags
from dashboards.views.part import Part, compute
from dashboards.views.theme import LIGHT
from orchestrator.store import open_store
from tests.dashboards.stores import Invented
from tests.dashboards.views.made import LONG, SCRIPT, drawn, made, only, renamed, selected, strictly, without_baseline

PARTS = [part for module in (curves, cost, choose, tags, published, factors, depth) for part in module.PARTS]
NAMED = pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    """Two train sizes, five freezes, three seeds, all complete."""
    return made(tmp_path_factory.mktemp("usual") / "s")


def _one_seed(selection: Selection) -> Selection:
    return only(selection, selection.trials["seed"] == 0)


def _no_numbers(selection: Selection) -> Selection:
    """Every cost and every second score is NaN."""
    costs = ["train_s", "prefix_s", "trainable_params", "peak_memory_bytes"]
    trials = selection.trials.assign(**dict.fromkeys(costs, float("nan")))
    trials.loc[trials.index % 2 == 0, "score"] = float("nan")
    return Selection(**{**vars(selection), "trials": trials})


def _no_device(selection: Selection) -> Selection:
    return Selection(**{**vars(selection), "trials": selection.trials.assign(device=None)})


@NAMED
@pytest.mark.parametrize("change", [_one_seed, without_baseline, _no_numbers, _no_device])
def test_a_part_says_in_words_or_draws_what_there_is(
    part: Part[Any], change: Callable[[Selection], Selection], usual: Selection
) -> None:
    shown = drawn(part, change(usual))
    assert shown.empty or len(shown.table)


@NAMED
def test_a_store_of_failed_trials_has_words_only(part: Part[Any], tmp_path: Path) -> None:
    shown = drawn(part, made(tmp_path / "s", Invented(state=lambda spec: "diverged")))
    assert "30 diverged" in shown.empty
    assert len(shown.table) == 0


@NAMED
def test_an_empty_store_says_what_to_run(part: Part[Any], tmp_path: Path) -> None:
    shown = drawn(part, selected(open_store(tmp_path / "s", must_exist=False)))
    assert "permafrost launch" in shown.empty


@NAMED
@pytest.mark.parametrize("name", [LONG, SCRIPT], ids=["long", "script"])
@pytest.mark.parametrize("column", ["freeze", "device"])
def test_a_name_is_no_html_and_no_longer_than_there_is_room(
    part: Part[Any], column: str, name: str, usual: Selection
) -> None:
    selection = renamed(only(usual, usual.trials["train_size"] == 200), column, name)
    figure = compute(part, selection, LIGHT).figure
    if figure and not part.name.startswith("depth-"):
        assert "<script>" not in str(strictly(figure))
        assert "</script>%{x}" not in str(figure)
        assert LONG not in str(figure)


@NAMED
def test_nothing_but_the_baseline_is_told(part: Part[Any], usual: Selection) -> None:
    shown = drawn(part, only(usual, usual.trials["strategy"] == "none"))
    assert shown.empty or len(shown.table)


@NAMED
def test_a_table_has_a_unit_or_a_plain_word_in_every_column(part: Part[Any], usual: Selection) -> None:
    table = drawn(part, usual).table
    assert isinstance(table, pd.DataFrame)
    assert not [column for column in table.columns if column.endswith(("_s", "_bytes", "_params"))]


def test_parts_have_names_of_their_own() -> None:
    names = [part.name for part in PARTS]
    assert len(set(names)) == len(names)
