"""Collapsed runs: recognised by the task's own constant prediction, and bounded where none was seen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from orchestrator.analysis.collapse import collapses, constant_score, has_collapsed, loss_fell
from trials.metrics.pseudo_values import accuracy, label_f1, macro_f1, matthews, micro_f1


def test_no_collapse_in_five_runs_leaves_45_percent_possible() -> None:
    assert collapses([False] * 5).sentence == "0 of 5 runs collapsed; up to 45 % could, 95 % bound"


@pytest.mark.parametrize(("k", "n"), [(0, 3), (1, 8), (4, 10), (5, 5)])
def test_the_bound_is_the_largest_share_that_so_few_collapses_do_not_rule_out(k: int, n: int) -> None:
    found = collapses(np.arange(n) < k)
    assert found.collapsed == k
    assert found.possible == 1 if k == n else stats.binom.cdf(k, n, found.possible) == pytest.approx(0.05)


def test_without_runs_nothing_is_known() -> None:
    assert collapses([]).possible == 1
    assert collapses([]).sentence == "no run has ended: nothing is known of collapses"


def test_constant_predictions_score_what_their_metric_gives_them() -> None:
    support = [60, 40]
    assert constant_score(support, accuracy) == pytest.approx(0.6)
    assert constant_score(support, matthews) == 0
    assert constant_score(support, label_f1(1)) == pytest.approx(2 * 0.4 / 1.4)
    assert constant_score(support, macro_f1) == pytest.approx(2 * 0.6 / 1.6 / 2)
    assert constant_score(support, micro_f1) == pytest.approx(0.6)


def test_a_run_at_or_below_the_constant_prediction_has_collapsed() -> None:
    scores = np.array([0.59, 0.6, 0.1 * 6, 0.61, np.nan])
    assert has_collapsed(scores, 0.6).tolist() == [True, True, True, False, True]


def test_a_run_whose_training_loss_did_not_fall_has_collapsed_whatever_its_score() -> None:
    assert has_collapsed(np.array([0.7, 0.7]), 0.6, fell=[True, False]).tolist() == [False, True]


def test_a_loss_at_the_entropy_of_the_labels_did_not_fall() -> None:
    rng = np.random.default_rng(0)
    assert not loss_fell(np.log(2) + 0.05 * rng.standard_normal(200))
    assert loss_fell(0.7 * np.exp(-np.arange(200) / 100) + 0.05 * rng.standard_normal(200))
    assert not loss_fell([0.7, 0.3, np.nan])


def test_a_split_without_items_and_a_loss_of_one_step_are_refused() -> None:
    with pytest.raises(ValueError, match="no constant prediction"):
        constant_score([0, 0], accuracy)
    with pytest.raises(ValueError, match="1 step cannot fall"):
        loss_fell([0.7])
