"""What is written in a figure on a phone."""

from __future__ import annotations

import pytest

from dashboards.views.kit.screen_fit import narrowed
from tests.dashboards.views.made import strictly

STRIP = "□ □□□□□□"


@pytest.mark.parametrize(("n", "angle", "label"), [(3, 0, f"{STRIP}<br>n=8"), (4, -90, f"{STRIP} n=8")])
def test_strips_that_would_touch_each_other_are_turned(n: int, angle: int, label: str) -> None:
    figure = {"data": [], "layout": {"xaxis": {"ticktext": [f"{STRIP}<br>none<br>n=8"] * n}}}
    axis = strictly(narrowed(figure))["layout"]["xaxis"]
    assert (axis["tickangle"], axis["ticktext"]) == (angle, [label] * n)
