"""What figures are made of."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.views import marks
from dashboards.views.theme import DARK, LIGHT
from tests.dashboards.stores import specs
from tests.dashboards.views.made import LONG, SCRIPT, made


@given(st.text(max_size=400))
def test_a_name_has_no_tag_no_place_for_a_value_and_no_more_letters_than_there_is_room(text: str) -> None:
    found = marks.name(text)
    assert not set("<>") & set(found)
    assert "%{" not in found
    assert len(marks.short(text)) <= 60


def test_names_of_the_usual_kind_stay_as_they_are() -> None:
    assert marks.name("first 4+E") == "first 4+E"
    assert marks.name(LONG) == "x" * 59 + "…"
    assert marks.name(SCRIPT).startswith("&lt;script&gt;")


def test_what_is_no_number_is_none() -> None:
    assert marks.numbers([0.123456, np.nan, np.inf], 100) == [12.3456, None, None]
    assert marks.numbers(pd.Series([1, None], dtype="Float64").astype("float64")) == [1.0, None]
    assert marks.numbers([]) == []


def test_a_note_stands_below_the_title_of_the_axis_without_html() -> None:
    figure = {"data": [], "layout": {"xaxis": {"title": {"text": "epochs"}}}}
    assert marks.with_note(figure, LIGHT, "", "") is figure
    text = marks.with_note(figure, DARK, "One <b>", "two.")["layout"]["xaxis"]["title"]["text"]
    assert text == f'epochs<br><span style="font-size:12px;color:{DARK.muted}">One &lt;b&gt; two.</span>'


@pytest.mark.parametrize("n", [1, 2, 3])
def test_panels_fill_the_height_and_share_the_lowest_x(n: int) -> None:
    layout = marks.panels(LIGHT, {}, [f"p{k}" for k in range(n)])
    domains = [layout[f"yaxis{k + 1 if k else ''}"]["domain"] for k in range(n)]
    assert domains[0][1] == 1
    assert domains[-1][0] == pytest.approx(0)
    assert all(lower[1] < upper[0] for upper, lower in pairwise(domains))
    assert layout["xaxis"]["anchor"] == marks.axis_name(n - 1)


def test_few_cells_are_those_of_whole_train_sizes_the_largest_first(tmp_path: Path) -> None:
    trials = made(tmp_path / "s", trials=specs(train_sizes=(100, 200, 400), seeds=(0,))).trials
    assert marks.few_cells(trials).note == ""
    few = marks.few_cells(trials, 12)
    assert few.table["train_size"].tolist() == [200] * 5 + [400] * 5
    assert few.note == "Only 10 of 15 cells are drawn: train sizes 200, 400. Choose train sizes to see others."
    assert len(marks.few_cells(trials, 3).table) == 3
    assert set(marks.few_cells(trials, sizes=1).table["train_size"]) == {400}


def test_counted_costs_need_no_device() -> None:
    trials = pd.DataFrame({"device": ["cpu", "T4", None]})
    assert len(marks.one_device(trials, "trainable_params").trials) == 3
    alone = marks.one_device(trials.iloc[[0, 0, 1, 2]], "train_s")
    assert alone.trials["device"].tolist() == ["cpu", "cpu"]
    assert alone.note.endswith("cpu is drawn, not T4 (1 trials), an unnamed device (1 trials).")
    assert marks.one_device(trials.iloc[[2]], "train_s").note == "No trial says which device it ran on."
