"""What figures are made of."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.views.kit import axes, labels
from dashboards.views.kit.theme import DARK, LIGHT
from orchestrator.analysis.freeze_names import freeze_name
from tests.dashboards.views.made import LONG, SCRIPT


@given(st.text(max_size=400))
def test_a_name_has_no_tag_no_place_for_a_value_and_no_more_letters_than_there_is_room(text: str) -> None:
    found = labels.name(text)
    assert not set("<>") & set(found)
    assert "%{" not in found
    assert len(labels.short(text)) <= 60


def test_frozen_embeddings_are_spelled_out() -> None:
    assert freeze_name("first 4+E", 6) == "first 4 + embeddings"
    assert freeze_name("embeddings", 6) == "embeddings"


def test_names_of_the_usual_kind_stay_as_they_are() -> None:
    assert labels.name("first 4") == "first 4"
    assert labels.name(LONG) == "x" * 59 + "…"
    assert labels.name(SCRIPT).startswith("&lt;script&gt;")


def test_what_is_no_number_is_none() -> None:
    assert labels.numbers([0.123456, np.nan, np.inf], 100) == [12.3456, None, None]
    assert labels.numbers(pd.Series([1, None], dtype="Float64").astype("float64")) == [1.0, None]
    assert labels.numbers([]) == []


def test_a_note_stands_below_the_title_of_the_axis_without_html() -> None:
    figure = {"data": [], "layout": {"xaxis": {"title": {"text": "epochs"}}}}
    assert axes.with_note(figure, LIGHT, "", "") is figure
    text = axes.with_note(figure, DARK, "One <b>", "two.")["layout"]["xaxis"]["title"]["text"]
    assert text == f'epochs<br><span style="font-size:12px;color:{DARK.muted}">One &lt;b&gt; two.</span>'


@pytest.mark.parametrize("n", [1, 2, 3])
def test_panels_fill_the_height_and_share_the_lowest_x(n: int) -> None:
    layout = axes.panels(LIGHT, {}, [f"p{k}" for k in range(n)])
    domains = [layout[f"yaxis{k + 1 if k else ''}"]["domain"] for k in range(n)]
    assert domains[0][1] == 1
    assert domains[-1][0] == pytest.approx(0)
    assert all(lower[1] < upper[0] for upper, lower in pairwise(domains))
    assert layout["xaxis"]["anchor"] == axes.axis_name(n - 1)
