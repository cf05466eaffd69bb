"""How a question is fitted to the time that somebody gives, and what is asked next."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.api.answering import answer
from orchestrator.api.next_steps import other_tolerance
from orchestrator.api.planned_question import SPARE, hours_of_all
from orchestrator.own_data.choose_options import ChooseOptions
from tests.dashboards.stores import Invented, specs, write_store


@pytest.mark.parametrize(("curve_s", "given", "asked"), [(36.0, 0.05, 0.06), (360.0, 0.05, 0.1 / SPARE)])
def test_the_price_of_all_of_train_is_more_than_the_time_that_was_too_little(
    curve_s: float, given: float, asked: float
) -> None:
    assert hours_of_all(curve_s, given) == pytest.approx(asked, abs=0.01)
    assert hours_of_all(curve_s, given) > given


@pytest.mark.parametrize(("loss", "n_steps"), [(0.05, 1), (0.6, 0)])
def test_no_tolerance_is_proposed_that_gives_up_half_of_what_the_baseline_learned(
    loss: float, n_steps: int, tmp_path: Path
) -> None:
    scores = Invented(noise=0.01, score=lambda spec: 0.9 - loss * (spec.freeze.depth > 0))
    store = write_store(tmp_path / "store", specs(seeds=range(5), train_sizes=(200,)), scores)
    (found,) = answer(store.address, tolerance=100 * loss)
    assert (found.freeze, bool(found.trade_offs)) == (None, True)
    assert len([*other_tolerance(ChooseOptions(data="x", tolerance=100 * loss), found)]) == n_steps
