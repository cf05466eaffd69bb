"""Runs that broke or collapsed: how they are told, how many there may be."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from orchestrator.analysis.losses import LEAST_FALL, clopper_pearson, collapses, has_collapsed, losses
from tests.examples import each
from tests.orchestrator.analysis.frames import trials
from trials.record import loss_fall

DECAY = np.exp(-np.arange(200) / 100)


@each("k, n", [(0, 3), (1, 8), (4, 10), (5, 5)])
def test_the_bound_is_the_largest_share_that_so_few_collapses_do_not_rule_out(k: int, n: int) -> None:
    found = collapses(np.arange(n) < k)
    assert found.collapsed == k
    assert found.possible == 1 if k == n else stats.binom.cdf(k, n, found.possible) == pytest.approx(0.05)
    assert collapses([False] * 5).sentence == "0 of 5 runs collapsed; up to 45 % could, 95 % bound"
    assert (collapses([]).possible, collapses([]).sentence) == (1, "whether runs collapsed was not recorded")


def test_a_run_at_the_constant_prediction_or_whose_loss_did_not_fall_has_collapsed() -> None:
    scores = np.array([0.59, 0.6, 0.1 * 6, 0.61])
    assert has_collapsed(scores, np.full(4, 0.6), np.full(4, np.nan)).tolist() == [1, 1, 1, 0]
    assert has_collapsed(np.full(2, 0.7), np.full(2, 0.6), np.array([0.5, 0.01])).tolist() == [0, 1]
    assert np.isnan(has_collapsed(np.array([0.7]), np.array([np.nan]), np.array([0.0]))).all()


def test_a_loss_at_the_entropy_of_the_labels_or_without_a_value_did_not_fall() -> None:
    rng = np.random.default_rng(0)
    flat, falls = (loss_fall(list(each + 0.02 * rng.standard_normal(200))) for each in (np.log(2), 0.7 * DECAY))
    assert flat is not None
    assert falls is not None
    assert flat < LEAST_FALL < falls
    assert loss_fall([0.7, 0.3, np.nan]) == -1
    assert loss_fall([0.7]) is None


@given(st.integers(0, 12), st.integers(1, 12), st.sampled_from([0.9, 0.95]))
def test_interval_is_scipys_exact_one(k: int, n: int, level: float) -> None:
    k = min(k, n)
    theirs = stats.binomtest(k, n).proportion_ci(level, "exact")
    low, high = clopper_pearson(np.array([float(k)]), np.array([float(n)]), level)
    assert (low[0], high[0]) == pytest.approx((theirs.low, theirs.high))


def test_seeds_of_a_cross_validation_pair_item_by_item_in_their_own_folds() -> None:
    rng, sizes = np.random.default_rng(3), [40, 41, 39, 40, 40, 40]  # of six seeds; the last has the first one's fold
    frame = trials({"none": [0.9] * 6, "first 1": [0.88] * 6, "first 2": [0.87] * 6})
    items = [
        score + 0.1 * rng.standard_normal(sizes[s]) for s, score in zip(frame["seed"], frame["score"], strict=True)
    ]
    frame = frame.assign(score=[each.mean() for each in items], sentences=pd.Series(items), folds=5, examples=200)
    found, whole = losses(frame), losses(frame.drop(columns="sentences"))
    assert [(~np.isnan(array)).sum(axis=1).tolist() for array in found.values] == [sizes] * 2
    assert [array.shape for array in found.values] == [(6, 200)] * 2
    assert found.estimate.mean == pytest.approx(whole.estimate.mean)
    assert (found.estimate.variance < whole.estimate.variance).all()
    assert (*found.estimate.n_sentences, *whole.estimate.n_sentences) == (200, 200, 1, 1)
