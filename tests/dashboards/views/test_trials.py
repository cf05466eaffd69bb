"""The rows that the grid of trials asks for: sorted, filtered and cut as it says."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dashboards.data.frames import Frames
from dashboards.data.page_query import PageQuery
from dashboards.data.selection import Selection, select
from dashboards.views.trials import RowsRequest, answer_rows
from tests.dashboards.stores import Invented, specs, write_store


@pytest.fixture(scope="module")
def selection(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    states = {0: "completed", 1: "failed", 2: None}
    made = Invented(state=lambda spec: states[spec.seed])
    store = write_store(tmp_path_factory.mktemp("grid") / "store", specs(seeds=(0, 1, 2), train_sizes=(200,)), made)
    return select(Frames(store).refresh(), PageQuery())


def _rows(selection: Selection, **asked: Any) -> list[dict[str, Any]]:
    return list(answer_rows(selection, cast(RowsRequest, {"startRow": 0, "endRow": 100, **asked}))["rowData"])


def test_only_the_rows_asked_for_come_and_all_are_counted(selection: Selection) -> None:
    found = answer_rows(selection, {"startRow": 3, "endRow": 5})
    assert (len(found["rowData"]), found["rowCount"]) == (2, 15)


def test_a_trial_leads_to_its_page(selection: Selection) -> None:
    trial = selection.trials["trial_id"].iloc[0]
    assert _rows(selection)[0]["trial_id"] == f"[{trial}](trial/{trial})"


def test_rows_are_sorted_as_asked(selection: Selection) -> None:
    rows = _rows(selection, sortModel=[{"colId": "seed", "sort": "desc"}, {"colId": "freeze", "sort": "asc"}])
    assert [row["seed"] for row in rows] == [2] * 5 + [1] * 5 + [0] * 5
    assert [row["freeze"] for row in rows[:5]] == sorted(row["freeze"] for row in rows[:5])


@pytest.mark.parametrize(
    ("column", "condition", "n"),
    [
        ("freeze", {"filterType": "text", "type": "contains", "filter": "FIRST"}, 6),
        ("freeze", {"filterType": "text", "type": "equals", "filter": "none"}, 3),
        ("freeze", {"filterType": "text", "type": "contains", "filter": "(["}, 0),
        ("seed", {"filterType": "number", "type": "greaterThan", "filter": 0}, 10),
        ("seed", {"filterType": "number", "type": "inRange", "filter": 1, "filterTo": 2}, 10),
        ("score", {"filterType": "number", "type": "blank"}, 10),
    ],
)
def test_rows_are_filtered_as_asked(selection: Selection, column: str, condition: dict[str, Any], n: int) -> None:
    assert len(_rows(selection, filterModel={column: condition})) == n


@pytest.mark.parametrize(("state", "n"), [("any", 15), ("completed or pruned", 5), ("failed", 5), ("not ended", 5)])
def test_the_url_narrows_to_a_kind_of_state(selection: Selection, state: str, n: int) -> None:
    assert len(_rows(select(selection.snapshot, PageQuery(state=state)))) == n


def test_columns_that_a_visitor_invents_are_no_columns(selection: Selection) -> None:
    asked = {"sortModel": [{"colId": "spec", "sort": "asc"}], "filterModel": {"__class__": {"filter": "x"}}}
    assert len(_rows(selection, **asked)) == 15
