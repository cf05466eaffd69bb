"""Several settings at once: the correction, the verdicts that follow from the drawn interval, the error of all."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from orchestrator.analysis.looks import PlannedLooks
from orchestrator.analysis.simultaneous import adjusted_tail, mean_correlation, simultaneous
from orchestrator.analysis.two_way import interval, verdict
from tests.orchestrator.analysis.frames import Floats
from tests.orchestrator.analysis.test_two_way import losses


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


def test_the_simultaneous_interval_lies_around_the_single_one() -> None:
    x = settings_of(2, 5, 4, 50)
    found = simultaneous(list(x), 0.5)
    single = [interval(losses) for losses in x]
    assert (found.low <= [each.low for each in single]).all()
    assert (found.high >= [each.high for each in single]).all()
    assert found.method.startswith("max-t over 5 settings, correlation 0.")


def test_a_verdict_is_read_off_the_interval_that_is_drawn() -> None:
    x = 0.001 * settings_of(3, 3, 8, 100) + np.array([0.0, 0.01, 0.05])[:, None, None]
    found = simultaneous(list(x), 0.01)
    assert found.verdicts == ("shown to lose at most the tolerance", "not decided", "shown to lose more")


def test_a_loss_of_exactly_the_tolerance_is_within_it() -> None:
    assert verdict(0.001, 0.91 - 0.90, 0.01) == "shown to lose at most the tolerance"  # 0.010000000000000009
    assert verdict(0.91 - 0.90, 0.02, 0.01) == "not decided"
    assert verdict(0.011, 0.02, 0.01) == "shown to lose more"
    assert verdict(np.nan, np.nan, 0.01) == "not decided"


def test_settings_with_other_seeds_are_corrected_as_if_they_were_independent() -> None:
    found = simultaneous([losses(np.random.default_rng(4), n, 30) for n in (4, 5)], 0.5)
    assert found.tail == pytest.approx(1 - 0.975**0.5)


def test_a_setting_without_spread_is_not_decided_and_disturbs_no_other() -> None:
    found = simultaneous([np.zeros((4, 30)), 0.001 * losses(np.random.default_rng(5), 4, 30)], 0.5)
    assert found.verdicts == ("not decided", "shown to lose at most the tolerance")


def test_settings_in_order_need_no_correction_until_one_is_not_shown() -> None:
    x = 0.001 * settings_of(3, 4, 8, 100) + np.array([0.0, 0.005, 0.01, 0.0])[:, None, None]
    found = simultaneous(list(x), 0.01, in_order=True)
    assert [said == "shown to lose at most the tolerance" for said in found.verdicts] == [True, True, False, False]
    assert found.tail == 0.025
    assert np.isfinite(found.high).tolist() == [True, True, True, False]
    assert (found.high[:3] < simultaneous(list(x), 0.01).high[:3]).all()


def test_looks_make_the_interval_longer() -> None:
    x = list(settings_of(6, 3, 5, 40))
    assert (simultaneous(x, 0.5, looks=PlannedLooks(3, 10)).high > simultaneous(x, 0.5).high).all()


@pytest.mark.parametrize("n", [3, 5])
def test_any_setting_is_wrongly_ruled_out_in_at_most_5_percent(n: int) -> None:
    wrong = [(simultaneous(list(settings_of(seed, 4, n, 30)), 0.0).high < 0).any() for seed in range(600)]
    assert np.mean(wrong) <= 0.05


def test_no_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="no setting"):
        simultaneous([], 0.01)
