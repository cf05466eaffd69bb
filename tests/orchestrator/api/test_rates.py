"""Learning rates of their own: which are tried, and which a depth gets."""

from __future__ import annotations

import pytest

from orchestrator.api.planned_question import higher_rates, nearest, rates_of
from orchestrator.own_data.question import NOTHING
from trials.errors import ConfigError


def test_auto_tries_rates_around_that_of_the_recipe() -> None:
    assert rates_of("auto", 5e-5) == [2e-5, 5e-5, 1.3e-4]
    assert rates_of("1e-4,2e-5", 5e-5) == [2e-5, 1e-4]


@pytest.mark.parametrize("asked", ["5e-5", "a,b", "0,1e-4", "5e-5,5e-5"])
def test_rates_that_leave_nothing_to_try_are_refused(asked: str) -> None:
    with pytest.raises(ConfigError, match="give two or more rates above 0"):
        rates_of(asked, 1e-4)


def test_where_the_baseline_has_not_learned_rates_above_those_tried_come_next() -> None:
    assert higher_rates(None, 3e-4) == "auto"
    assert rates_of(higher_rates("auto", 3e-4), 3e-4) == [7.5e-4, 1.9e-3, 4.5e-3]
    assert rates_of(higher_rates("2e-5,1e-4", 3e-4), 3e-4) == [1e-4, 2.5e-4, 6e-4]


def test_a_depth_that_was_not_tried_has_the_rate_of_the_nearest_and_the_embeddings_that_of_nothing_frozen() -> None:
    best = {NOTHING: 1.0, 2: 2.0, 4: 4.0, 6: 6.0}
    assert [nearest(best, depth) for depth in (NOTHING, 0, 1, 2, 3, 4, 5, 6)] == [1, 1, 1, 2, 2, 4, 4, 6]
