"""What every view and every part of it must do, with selections that hold little or hostile names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from plotly.io.json import to_json_plotly

from dashboards.data.selection import Selection
from dashboards.views.kit.drawing import LIGHT
from dashboards.views.kit.part import ItemPage, Part, View, compute
from dashboards.views.registry import ITEM_PAGES, PARTS, VIEWS
from orchestrator.store import open_store
from tests.dashboards.stores import STRATEGIES, Invented, specs
from tests.dashboards.views.made import (
    LONG,
    SCRIPT,
    drawn,
    html_of,
    made,
    only,
    renamed,
    selected,
    strictly,
    without_baseline,
)
from tests.examples import each

EVERY_PART = each("part", PARTS.values())
EVERY_VIEW = each("view", VIEWS.values())


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    """Two train sizes, three freezes, three seeds, all complete."""
    return made(tmp_path_factory.mktemp("usual") / "s", trials=specs(strategies=STRATEGIES[:3]))


@pytest.fixture(scope="module")
def small(usual: Selection) -> Selection:
    """One of its train sizes."""
    return only(usual, usual.trials["train_size"] == 200)


@pytest.fixture(scope="module")
def diverged(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    """No trial completed."""
    return made(tmp_path_factory.mktemp("diverged") / "s", Invented(state=lambda spec: "diverged"))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    """A store without a sweep."""
    return selected(open_store(tmp_path_factory.mktemp("empty") / "s", must_exist=False))


def _one_seed(selection: Selection) -> Selection:
    return only(selection, selection.trials["seed"] == 0)


def _no_numbers(selection: Selection) -> Selection:
    """Every cost and every second score is NaN, and no device is known."""
    costs = ["train_s", "prefix_s", "trainable_params", "peak_memory_bytes"]
    trials = selection.trials.assign(**dict.fromkeys(costs, float("nan")), device=None)
    trials.loc[trials.index % 2 == 0, "score"] = float("nan")
    return replace(selection, trials=trials)


@pytest.fixture(scope="module")
def changed(small: Selection) -> list[Selection]:
    """Less of it."""
    return [change(small) for change in (_no_numbers, _one_seed, without_baseline)]


@each("number", range(3), quick=2)
@EVERY_PART
def test_a_part_shows_something_or_says_why_it_is_empty(part: Part[Any], number: int, changed: list[Selection]) -> None:
    shown = compute(part, changed[number], LIGHT)
    strictly(shown.figure)
    assert shown.why_empty or len(shown.table)


@EVERY_PART
def test_without_a_completed_trial_a_part_shows_the_states_or_says_why_it_is_empty(
    part: Part[Any], diverged: Selection
) -> None:
    if part.of_store:  # of sweeps, whose plans this selection lacks
        return
    shown = drawn(part, diverged)
    assert ("30 diverged" in shown.why_empty) is not part.any_state
    assert ("diverged" in str(shown.table)) is part.any_state


@EVERY_PART
def test_a_part_of_an_empty_store_says_what_to_run(part: Part[Any], empty: Selection) -> None:
    shown = drawn(part, empty)
    assert "permafrost launch" in shown.why_empty


@pytest.fixture(scope="module")
def hostile(small: Selection) -> Selection:
    """With long names that are markup."""
    return renamed(renamed(small, "freeze", SCRIPT + LONG), "device", SCRIPT + LONG)


@EVERY_PART
def test_a_name_is_no_html_and_no_longer_than_there_is_room(part: Part[Any], hostile: Selection) -> None:
    figure = str(strictly(compute(part, hostile, LIGHT).figure))
    assert "<script>" not in figure
    assert "</script>%{x}" not in figure
    assert LONG not in figure


@EVERY_PART
def test_a_table_has_a_unit_or_a_plain_word_in_every_column(part: Part[Any], small: Selection) -> None:
    table = compute(part, small, LIGHT).table
    assert isinstance(table, pd.DataFrame)
    assert not [column for column in table.columns if column.endswith(("_s", "_bytes", "_params"))]


def test_paths_and_parts_are_unique() -> None:
    parts = [part.name for view in VIEWS.values() for part in view.parts]
    assert parts == list(PARTS)
    assert len(VIEWS) == len({view.title for view in VIEWS.values()}) == 7


@EVERY_VIEW
@each("change", [_one_seed, without_baseline, _no_numbers])
def test_the_content_of_a_view_can_be_sent_to_a_browser(
    view: View, change: Callable[[Selection], Selection], usual: Selection
) -> None:
    assert view.content is None or to_json_plotly(view.content(change(usual)))


@EVERY_VIEW
def test_the_content_of_a_view_of_an_empty_store_can_be_sent_to_a_browser(view: View, empty: Selection) -> None:
    assert view.content is None or to_json_plotly(view.content(empty))


@EVERY_VIEW
@each("column", ["freeze", "model", "setup", "error"])
def test_no_name_is_html_in_the_content_of_a_view(view: View, column: str, usual: Selection) -> None:
    content = view.content(renamed(usual, column, SCRIPT)) if view.content else None
    assert SCRIPT not in html_of(content)


@each("page", ITEM_PAGES.values())
def test_the_page_of_an_item_is_made_of_text(page: ItemPage, tmp_path: Path) -> None:
    hostile = specs(seeds=(0, 1), train_sizes=(200,), data={"name": SCRIPT}, model={"name": SCRIPT})
    selection = made(
        tmp_path / "s", Invented(state=lambda spec: "failed" if spec.seed else "completed"), trials=hostile
    )
    for item in (*selection.trials["trial_id"][:2], SCRIPT):
        assert SCRIPT not in html_of(page.build(selection.snapshot, item, LIGHT))
