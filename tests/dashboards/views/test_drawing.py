"""What figures are made of."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from dashboards.views.kit import axes, labels
from dashboards.views.kit.theme import DARK, LIGHT


@given(st.text(max_size=400))
def test_a_name_has_no_tag_no_place_for_a_value_and_no_more_letters_than_there_is_room(text: str) -> None:
    found = labels.name(text)
    assert not set("<>") & set(found)
    assert "%{" not in found
    assert len(labels.short(text)) <= 60


def test_what_is_no_number_is_none() -> None:
    assert labels.numbers([0.123456, np.nan, np.inf], 100) == [12.3456, None, None]
    assert labels.numbers(pd.Series([1, None], dtype="Float64").astype("float64")) == [1.0, None]
    assert labels.numbers([]) == []


def test_a_note_stands_below_the_title_of_the_axis_without_html() -> None:
    figure = {"data": [], "layout": {"xaxis": {"title": {"text": "epochs"}}}}
    assert axes.with_note(figure, LIGHT, "", "") is figure
    text = axes.with_note(figure, DARK, "One <b>", "two.")["layout"]["xaxis"]["title"]["text"]
    assert text == f'epochs<br><span style="font-size:12px;color:{DARK.muted}">One &lt;b&gt; two.</span>'
