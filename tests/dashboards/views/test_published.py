"""Published numbers beside ours: only where they may stand there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from dashboards.data.duckdb_mirror import Database
from dashboards.data.page_query import parse_query
from dashboards.data.selection import Selection, select
from dashboards.views import scores
from dashboards.views.kit import published
from dashboards.views.kit.theme import LIGHT
from tests.dashboards.stores import STRATEGIES, Invented, specs
from tests.dashboards.views.made import drawn, made, only, strictly
from tests.examples import each
from trials.spec import TrialSpec

EWT: dict[str, Any] = {
    "data": {"name": "UD_English-EWT", "source": "ud:UD_English-EWT@2.16", "sizes": (12544, 2001, 2077)},
    "model": {"name": "distilbert-base-multilingual-cased"},
}


class Unasked(Database):
    """Rows that nobody may ask for."""

    def ask(self, sql: str, **unused: Any) -> pd.DataFrame:
        raise AssertionError(sql)


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    """The whole of English-EWT, five freezes, the published seed."""
    return _english(tmp_path_factory.mktemp("english") / "s")


def _english(folder: Path, search: str = "", **changes: Any) -> Selection:
    trials: list[TrialSpec] = specs(train_sizes=(12544,), seeds=(42,), **(EWT | changes))
    return made(folder, Invented(noise=0.0, score=lambda spec: 0.96), trials=trials, search=search)


def test_points_stand_at_the_cells_that_freeze_the_same(english: Selection) -> None:
    found = published.overlay(english)
    freezes = english.trials.drop_duplicates("cell").set_index("cell")["freeze"]
    assert dict(zip(found.points["cell"].map(freezes), found.points["value"], strict=True)) == {
        "none": 0.964, "all": 0.916, "first 2": 0.963, "first 4": 0.961, "alternating": 0.962,
    }  # fmt: skip
    assert set(found.points["study"]) == {"emekaeze_pos"}
    assert found.points["citation"].iloc[0].startswith("John Emekaeze (2025)")


def test_differences_and_errata_stand_beside_them(english: Selection) -> None:
    table = drawn(published.PUBLISHED, english).table
    assert table["protocol differences"].str.contains("cpu instead of 1x NVIDIA T4", regex=False).any()
    assert table["errata"].str.startswith("One seed (42) and no interval").any()


@each(
    "changes, reason",
    [
        ({"data": EWT["data"] | {"sizes": (12544, 2001, 99)}}, "is not UD_English-EWT 2.16"),
        ({"data": EWT["data"] | {"source": "ud:UD_English-EWT@2.15"}}, "ours is release 2.15"),
        ({"data": {"name": "tiny"}}, "our trials do not record the size of tiny"),
        ({"task": "ner"}, "it has no corpus for the task ner"),
    ],
)
def test_another_corpus_is_refused_with_the_reason(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    found = published.overlay(_english(tmp_path / "s", "?study=emekaeze_pos", **changes))
    assert len(found.points) == len(found.lines) == 0
    assert reason in " ".join(found.refusals)


def test_another_train_size_is_refused(tmp_path: Path) -> None:
    trials = specs(train_sizes=(200,), seeds=(42,), **EWT)
    found = published.overlay(made(tmp_path / "s", trials=trials, search="?study=emekaeze_pos"))
    assert "it has none of the selected train sizes, only 12,544" in found.refusals[0]


def test_another_metric_or_split_has_no_points(english: Selection) -> None:
    for search in ("?metric=macro_f1", "?split=test"):
        assert len(published.overlay(select(english.snapshot, parse_query(search)[0])).points) == 0


def test_the_same_selection_is_compared_once(english: Selection) -> None:
    found = published.overlay(english)
    assert published.overlay(select(english.snapshot, english.query)) is found
    assert published.overlay(only(english, english.trials["depth"] < 3)) is not found


def test_off_lays_nothing_over(english: Selection) -> None:
    off = select(english.snapshot, parse_query("?study=off")[0])
    assert published.overlay(off) == published.NOTHING
    assert drawn(published.PUBLISHED, off).why_empty == "Published studies are switched off (study: off)."


def test_diamonds_are_hollow_and_at_the_places_of_their_cells(english: Selection) -> None:
    info = scores.prepare_strip(english)
    trace = strictly(scores.draw_strip(info, LIGHT))["data"][-1]
    assert (trace["name"], trace["marker"]["symbol"]) == ("published: emekaeze_pos", "diamond-open")
    assert dict(zip(trace["x"], trace["y"], strict=True)) == {0: 96.4, 1: 96.3, 2: 96.2, 3: 96.1, 4: 91.6}


def test_tables_of_the_figures_have_the_published_numbers(english: Selection) -> None:
    table = drawn(scores.STRIP, english).table.set_index("frozen")
    assert table["published: emekaeze_pos (%)"].to_dict() == {
        "none": 96.4, "all": 91.6, "first 2": 96.3, "first 4": 96.1, "alternating": 96.2,
    }  # fmt: skip


def test_the_table_has_ours_minus_theirs_and_one_line_says_what_does_not_fit(english: Selection) -> None:
    one_study = select(english.snapshot, parse_query("?study=emekaeze_pos")[0])
    found = drawn(published.PUBLISHED, one_study)
    table = found.table
    row = table[(table["frozen"] == "first 2") & table["table"].eq("report, table 2") & table["unit"].eq("%")].iloc[0]
    assert (row["published"], row["ours"], row["ours minus published"]) == (96.3, 96.0, -0.3)
    assert row["verdict"] == "cannot tell"  # one seed on either side
    assert table["frozen"].ne("").all()
    assert re.match(r"\d+ of \d+ published numbers do not fit: emekaeze_pos: ", found.note)
    assert "times of different hardware are not compared" in found.note


def test_nothing_is_read_where_the_corpus_is_none_of_a_study(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", trials=specs(train_sizes=(200,), strategies=STRATEGIES[:1]))
    blind = replace(selection, snapshot=replace(selection.snapshot, database=Unasked(duckdb.connect())))
    assert len(published.overlay(blind).refusals) == 4
