"""How a question is fitted to the time that somebody gives."""

from __future__ import annotations

import pytest

from orchestrator.api.questions import SPARE, hours_of_all


@pytest.mark.parametrize(("curve_s", "given", "asked"), [(36.0, 0.05, 0.06), (360.0, 0.05, 0.1 / SPARE)])
def test_the_price_of_all_of_train_is_more_than_the_time_that_was_too_little(
    curve_s: float, given: float, asked: float
) -> None:
    assert hours_of_all(curve_s, given) == pytest.approx(asked, abs=0.01)
    assert hours_of_all(curve_s, given) > given
