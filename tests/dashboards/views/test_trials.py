"""The rows that the grid of trials asks for: sorted, filtered and cut as it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery, Selection, parse_query, select
from dashboards.views.trials import RowsRequest, answer_rows, trials_content, trials_csv
from orchestrator.store import open_store
from tests.dashboards.stores import Invented, specs, write_store


@pytest.fixture(scope="module")
def selection(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    states = {0: "completed", 1: "failed", 2: None}
    made = Invented(state=lambda spec: states[spec.seed])
    store = write_store(tmp_path_factory.mktemp("grid") / "store", specs(seeds=(0, 1, 2), train_sizes=(200,)), made)
    return select(Frames(store).refresh(), PageQuery())


ABOVE, BELOW = {"type": "greaterThan", "filter": 0}, {"type": "lessThan", "filter": 2}


def _rows(selection: Selection, **asked: Any) -> list[dict[str, Any]]:
    request = RowsRequest.model_validate({"startRow": 0, "endRow": 100, **asked})
    return list(answer_rows(selection, request)["rowData"])


def test_only_the_rows_asked_for_come_and_all_are_counted(selection: Selection) -> None:
    found = answer_rows(selection, RowsRequest(start_row=3, end_row=5))
    assert (len(found["rowData"]), found["rowCount"]) == (2, 15)


def test_an_empty_store_has_no_rows_whether_they_are_grouped_or_not(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", must_exist=False)
    store.create()
    for group in ("none", "freeze"):
        empty = select(Frames(store).refresh(), PageQuery(group=group))
        assert answer_rows(empty, RowsRequest(start_row=0, end_row=100)) == {"rowData": [], "rowCount": 0}


def test_a_trial_leads_to_its_page(selection: Selection) -> None:
    trial = selection.trials["trial_id"].iloc[0]
    assert _rows(selection)[0]["trial_id"] == f"[{trial[:8]}](trial/{trial})"


def test_rows_are_sorted_as_asked(selection: Selection) -> None:
    rows = _rows(selection, sortModel=[{"colId": "seed", "sort": "desc"}, {"colId": "freeze", "sort": "asc"}])
    assert [row["seed"] for row in rows] == ["2"] * 5 + ["1"] * 5 + ["0"] * 5
    assert [row["freeze"] for row in rows[:5]] == sorted(row["freeze"] for row in rows[:5])


@pytest.mark.parametrize(
    ("column", "condition", "n"),
    [
        ("freeze", {"filterType": "text", "type": "contains", "filter": "FIRST"}, 6),
        ("freeze", {"filterType": "text", "type": "equals", "filter": "none"}, 3),
        ("freeze", {"filterType": "text", "type": "contains", "filter": "(["}, 0),
        ("seed", {"filterType": "number", "type": "greaterThan", "filter": 0}, 10),
        ("seed", {"filterType": "number", "operator": "AND", "conditions": [ABOVE, BELOW]}, 5),
        (
            "seed",
            {"filterType": "number", "operator": "OR", "conditions": [BELOW, {"type": "equals", "filter": 2}]},
            15,
        ),
        ("seed", {"filterType": "number", "type": "inRange", "filter": 1, "filterTo": 2}, 10),
        ("score", {"filterType": "number", "type": "blank"}, 10),
    ],
)
def test_rows_are_filtered_as_asked(selection: Selection, column: str, condition: dict[str, Any], n: int) -> None:
    assert len(_rows(selection, filterModel={column: condition})) == n


@pytest.mark.parametrize(("state", "n"), [("any", 15), ("completed or pruned", 5), ("failed", 5), ("not ended", 5)])
def test_the_url_narrows_to_a_kind_of_state(selection: Selection, state: str, n: int) -> None:
    assert len(_rows(select(selection.snapshot, PageQuery(state=state)))) == n


def test_the_best_comes_first_and_the_address_sorts_and_filters_the_file_too(selection: Selection) -> None:
    scores = [row["score"] for row in _rows(selection) if row["score"] is not None]
    assert scores == sorted(scores, reverse=True)
    text = '{"seed": {"filterType": "number", "type": "equals", "filter": 0}}'
    wanted = select(selection.snapshot, PageQuery(filters=text, sort="score.asc", columns=("score", "freeze")))
    head, *rows = trials_csv(wanted).splitlines()
    assert head == "trial,dev accuracy (%),frozen,source"
    assert [float(row.split(",")[1]) for row in rows] == sorted(scores)


def test_a_setting_that_varies_is_a_column_and_a_constant_one_is_hidden(tmp_path: Path) -> None:
    trials = [spec for lr in (1e-5, 1e-3) for spec in specs(train_sizes=(200,), optim={"lr": lr})]
    both = select(Frames(write_store(tmp_path / "s", trials)).refresh(), PageQuery())
    columns = {each["field"]: each for each in trials_content(both).children[1].columnDefs}
    assert columns["set:optim.lr"]["headerName"] == "learning rate"
    assert (columns["set:optim.lr"]["hide"], columns["train_size"]["hide"], columns["device"]["hide"]) == (
        False, True, True,
    )  # fmt: skip
    assert {row["set:optim.lr"] for row in _rows(both)} == {1e-5, 1e-3}


def test_the_grid_begins_with_the_filters_of_the_address_as_it_sent_them(selection: Selection) -> None:
    sent = {"seed": {"filterType": "number", "operator": "OR", "conditions": [ABOVE, {**BELOW, "filterTo": 3.0}]}}
    filtered = select(selection.snapshot, PageQuery(filters=json.dumps(sent)))
    assert trials_content(filtered).children[1].filterModel == sent


def test_columns_that_a_visitor_invents_are_no_columns(selection: Selection) -> None:
    asked = {"sortModel": [{"colId": "spec", "sort": "asc"}], "filterModel": {"__class__": {"filter": "x"}}}
    assert len(_rows(selection, **asked)) == 15


@pytest.mark.parametrize(
    ("words", "n"), [("first", 6), ("FIRST completed", 2), ("first 4", 3), ("first gone", 0), ("", 15)]
)
def test_each_word_of_a_search_stands_in_a_row(selection: Selection, words: str, n: int) -> None:
    found = select(selection.snapshot, PageQuery(find=words))
    assert len(_rows(found)) == n == len(trials_csv(found).splitlines()) - 1


def test_a_search_finds_a_trial_by_its_id_and_not_by_a_single_digit(selection: Selection) -> None:
    trial = selection.trials["trial_id"].iloc[0]
    assert [row["id"] for row in _rows(select(selection.snapshot, PageQuery(find=trial[:8])))] == [trial]
    assert len(_rows(select(selection.snapshot, PageQuery(find=trial[0])))) < 15


def test_grouped_rows_are_the_means_of_what_is_shown_and_lead_to_their_trials(selection: Selection) -> None:
    grouped = select(selection.snapshot, PageQuery(group="freeze", state="completed or pruned"))
    own = selection.trials.set_index("freeze")["score"].dropna()
    rows = _rows(grouped)
    assert {row["freeze"]: row["score"] for row in rows} == pytest.approx((100 * own).round(4).to_dict())
    words, address = rows[0]["trial_id"].strip("[)").split("](trials")
    leads_to = select(selection.snapshot, parse_query(address)[0])
    assert (words, len(trials_csv(leads_to).splitlines()) - 1) == ("1 trial", 1)
    assert _rows(select(selection.snapshot, PageQuery(group="freeze")))[0]["trial_id"].startswith("[1 of 3 trials]")


def test_a_trial_is_compared_with_the_baseline_of_its_seed_in_one_click(selection: Selection) -> None:
    links = {row["id"]: row["compare"] for row in _rows(selection)}
    of = selection.trials.set_index("trial_id")
    for trial, link in links.items():
        if of.loc[trial, "freeze"] == "none":
            assert link == ""
        else:
            base, same = parse_query(link.partition("(compare")[2].rstrip(")"))[0].trials
            assert (same, of.loc[base, "freeze"], of.loc[base, "seed"]) == (trial, "none", of.loc[trial, "seed"])
