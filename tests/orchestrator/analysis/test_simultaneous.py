"""Several settings at once: the correction, the verdicts that follow from the drawn interval, the error of all."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from orchestrator.analysis.decision_plan import PlannedLooks
from orchestrator.analysis.simultaneous import adjusted_tail, mean_correlation, simultaneous
from orchestrator.analysis.two_way import verdict
from tests.orchestrator.analysis.frames import Floats
from tests.orchestrator.analysis.test_two_way import losses

LOOKS = PlannedLooks(3, 8)


def settings_of(seed: int, *shape: int) -> Floats:
    """(settings, seeds, sentences) losses of mean 0 that share half of their variance, as that of a baseline."""
    rng = np.random.default_rng(seed)
    found: Floats = losses(rng, *shape) + losses(rng, *shape[1:])
    return found


def test_uncorrelated_settings_have_sidaks_correction_and_equal_ones_none() -> None:
    assert adjusted_tail(4, 0.0, 0.025) == pytest.approx(1 - 0.975 ** (1 / 4))
    assert adjusted_tail(4, 1.0, 0.025) == 0.025


def test_half_correlated_settings_have_dunnetts_correction() -> None:
    """C. Dunnett, JASA 50 (1955): with infinite degrees of freedom and p treatments, one-sided 5 %."""
    critical = [-stats.norm.ppf(adjusted_tail(p, 0.5, 0.05)) for p in (2, 3, 4, 9)]
    assert critical == pytest.approx([1.92, 2.06, 2.16, 2.42], abs=0.005)


def test_correlation_is_that_of_the_shared_part_and_not_believed_of_three_seeds() -> None:
    many = np.mean([mean_correlation(settings_of(seed, 3, 40, 60)) for seed in range(40)])
    assert many == pytest.approx(0.5 * (1 - 0.5 * 2 / 39), abs=0.06)
    seeds_only = np.random.default_rng(0).standard_normal((1, 3, 1)) + 0.001 * settings_of(1, 4, 3, 1)
    assert mean_correlation(seeds_only) == 0


def test_several_settings_have_longer_intervals_than_each_alone() -> None:
    x = settings_of(2, 5, 6, 50)
    found = simultaneous(list(x), LOOKS)
    alone = [simultaneous([losses], LOOKS) for losses in x]
    assert (found.low <= [each.low[0] for each in alone]).all()
    assert (found.high >= [each.high[0] for each in alone]).all()
    assert found.method.startswith("max-t over 5 settings, correlation 0.")


def test_a_loss_of_exactly_the_tolerance_is_within_it() -> None:
    assert verdict(0.001, 0.91 - 0.90, 0.01) == "shown to lose at most the tolerance"  # 0.010000000000000009
    assert verdict(0.91 - 0.90, 0.02, 0.01) == "not decided"
    assert verdict(0.011, 0.02, 0.01) == "shown to lose more"
    assert verdict(np.nan, np.nan, 0.01) == "not decided"


def test_settings_with_other_seeds_are_corrected_as_if_they_were_independent() -> None:
    found = simultaneous([losses(np.random.default_rng(4), n, 30) for n in (4, 5)], LOOKS)
    assert found.tail == pytest.approx(1 - 0.95**0.5)


def test_only_the_family_is_corrected_for() -> None:
    x = list(settings_of(2, 3, 6, 50))
    assert simultaneous(x, LOOKS, family=np.array([False, True, False])).tail == 0.05


def test_a_setting_without_spread_has_no_interval_and_disturbs_no_other() -> None:
    found = simultaneous([np.zeros((5, 30)), 0.001 * losses(np.random.default_rng(5), 5, 30)], LOOKS)
    assert np.isfinite(found.high).tolist() == [False, True]


def test_more_planned_looks_make_the_interval_longer() -> None:
    x = list(settings_of(6, 3, 5, 40))
    assert (simultaneous(x, LOOKS).high > simultaneous(x, PlannedLooks(5, 5)).high).all()
