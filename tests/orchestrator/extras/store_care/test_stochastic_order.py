"""Almost stochastic order: known ratios, the definition on a fine grid, what few runs say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from orchestrator.extras.store_care.table_export import almost_dominates, violation_ratio


def test_the_violation_ratio_is_the_share_of_squares_where_the_better_is_lower() -> None:
    better, worse = np.array([5.0, 1.0, 2.0]), np.array([2.0, 3.0, 2.5])  # sorted: -1, -0.5, +2
    assert violation_ratio(better, worse) == pytest.approx(1.25 / 5.25)
    assert violation_ratio(worse, better) == pytest.approx(4 / 5.25)
    assert violation_ratio(worse + 9, better) == 0
    assert violation_ratio(worse, worse) == 0.5


def test_samples_of_unequal_sizes_are_compared_quantile_by_quantile() -> None:
    rng = np.random.default_rng(0)
    better, worse = rng.normal(0.1, 1, 7), rng.normal(0, 1, 12)
    grid = (np.arange(200_000) + 0.5) / 200_000
    gap = np.quantile(better, grid, method="inverted_cdf") - np.quantile(worse, grid, method="inverted_cdf")
    expected = (gap[gap < 0] ** 2).sum() / (gap**2).sum()
    assert violation_ratio(better, worse) == pytest.approx(expected, rel=1e-3)


def test_the_bound_adds_the_normal_quantile_of_a_bootstrap() -> None:
    rng = np.random.default_rng(1)
    better, worse = rng.normal(0.8, 1, 10), rng.normal(0, 1, 10)
    redrawn = [float(violation_ratio(rng.choice(better, 10), rng.choice(worse, 10))) for _ in range(4000)]
    expected = float(violation_ratio(better, worse)) + special.ndtri(0.95) * np.std(redrawn)
    assert almost_dominates(better, worse) == pytest.approx(min(expected, 1), abs=0.02)
    assert almost_dominates(better + 3, worse) < 0.5 < almost_dominates(worse, better + 3)


def test_four_runs_of_a_side_have_no_order() -> None:
    assert np.isnan(almost_dominates(np.arange(4.0), np.arange(9.0)))
