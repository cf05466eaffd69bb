"""What figures are made of."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.views.kit import drawing
from dashboards.views.kit.theme import DARK, LIGHT
from tests.dashboards.views.made import LONG, SCRIPT


@given(st.text(max_size=400))
def test_a_name_has_no_tag_no_place_for_a_value_and_no_more_letters_than_there_is_room(text: str) -> None:
    found = drawing.name(text)
    assert not set("<>") & set(found)
    assert "%{" not in found
    assert len(drawing.short(text)) <= 60


def test_frozen_embeddings_are_spelled_out() -> None:
    assert drawing.freeze_name("first 4+E") == "first 4 + embeddings"
    assert drawing.freeze_name("embeddings") == "embeddings"


def test_names_of_the_usual_kind_stay_as_they_are() -> None:
    assert drawing.name("first 4") == "first 4"
    assert drawing.name(LONG) == "x" * 59 + "…"
    assert drawing.name(SCRIPT).startswith("&lt;script&gt;")


def test_what_is_no_number_is_none() -> None:
    assert drawing.numbers([0.123456, np.nan, np.inf], 100) == [12.3456, None, None]
    assert drawing.numbers(pd.Series([1, None], dtype="Float64").astype("float64")) == [1.0, None]
    assert drawing.numbers([]) == []


def test_a_note_stands_below_the_title_of_the_axis_without_html() -> None:
    figure = {"data": [], "layout": {"xaxis": {"title": {"text": "epochs"}}}}
    assert drawing.with_note(figure, LIGHT, "", "") is figure
    text = drawing.with_note(figure, DARK, "One <b>", "two.")["layout"]["xaxis"]["title"]["text"]
    assert text == f'epochs<br><span style="font-size:12px;color:{DARK.muted}">One &lt;b&gt; two.</span>'


@pytest.mark.parametrize("n", [1, 2, 3])
def test_panels_fill_the_height_and_share_the_lowest_x(n: int) -> None:
    layout = drawing.panels(LIGHT, {}, [f"p{k}" for k in range(n)])
    domains = [layout[f"yaxis{k + 1 if k else ''}"]["domain"] for k in range(n)]
    assert domains[0][1] == 1
    assert domains[-1][0] == pytest.approx(0)
    assert all(lower[1] < upper[0] for upper, lower in pairwise(domains))
    assert layout["xaxis"]["anchor"] == drawing.axis_name(n - 1)
