"""Exact tests, Holm's adjustment and power against published answers, scipy and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from orchestrator.analysis.exact import reachable_p, sign_flip_p, wilcoxon_p
from orchestrator.analysis.holm import holm
from orchestrator.analysis.power import MOST_SEEDS, seeds_needed, t_power
from tests.examples import examples
from tests.orchestrator.analysis.samples import DEPRESSION, MAIZE

small = st.lists(st.floats(-1, 1).map(lambda x: round(x, 3)), min_size=1, max_size=9)


def test_hollander_and_wolfes_depression_scores_give_their_p() -> None:
    assert wilcoxon_p(DEPRESSION) == pytest.approx(2 * 0.01953125)


def test_sign_flips_are_scipys_permutation_test() -> None:
    theirs = stats.permutation_test((MAIZE[:9],), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_p(MAIZE[:9]) == pytest.approx(theirs.pvalue)


@given(small.filter(lambda values: len({abs(value) for value in values} - {0.0}) == len(values)))
def test_signed_ranks_without_ties_are_scipys(values: list[float]) -> None:
    theirs = stats.wilcoxon(values, method="exact").pvalue
    assert wilcoxon_p(np.array(values)) == pytest.approx(theirs)


def test_signed_ranks_with_ties_and_zeros_count_all_sign_patterns() -> None:
    # |d| ranks with the zero first (Pratt): 1; 2.5, 2.5; 4. Of 8 patterns of +-2.5, +-2.5, +-4, two reach |9|.
    assert wilcoxon_p(np.array([0.0, 0.1, 0.1, 0.3])) == 2 / 8


def test_differences_equal_but_for_rounding_are_ties() -> None:
    assert wilcoxon_p(np.array([0.91 - 0.90, 0.81 - 0.80, -0.3])) == wilcoxon_p(np.array([0.01, 0.01, -0.3]))


def test_many_pairs_are_drawn_with_the_given_seed_and_never_give_zero() -> None:
    values = np.random.default_rng(0).normal(0.3, 1, 30)
    assert sign_flip_p(values, seed=1) == sign_flip_p(values, seed=1)
    assert sign_flip_p(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=0.02)
    assert sign_flip_p(np.ones(30), resamples=99) == 1 / 100
    assert wilcoxon_p(values) == pytest.approx(stats.wilcoxon(values, method="asymptotic").pvalue)


def test_no_pairs_have_no_p_and_no_difference_has_one() -> None:
    assert np.isnan([sign_flip_p(np.empty(0)), wilcoxon_p(np.empty(0))]).all()
    assert sign_flip_p(np.zeros(3)) == wilcoxon_p(np.zeros(3)) == 1


@given(st.integers(1, 10))
def test_no_sample_goes_below_the_reachable_p(n: int) -> None:
    assert sign_flip_p(np.arange(1.0, n + 1)) == wilcoxon_p(np.arange(1.0, n + 1)) == reachable_p(np.array([n]))[0]


def test_reachable_p_of_few_pairs() -> None:
    assert reachable_p(np.array([0.0, 1, 5, 6])).tolist() == [1, 1, 0.0625, 0.03125]


@settings(max_examples=examples(5))  # statsmodels takes a tenth of a second
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_that_of_statsmodels_in_each_family(first: list[float], second: list[float]) -> None:
    family = np.array([0] * len(first) + [1] * len(second))
    mixed = np.random.default_rng(0).permutation(len(family))
    theirs = np.concatenate([multipletests(p, method="holm")[1] for p in (first, second)])
    assert holm(np.array(first + second)[mixed], family[mixed]) == pytest.approx(theirs[mixed])


def test_holm_leaves_out_what_is_not_known() -> None:
    found = holm(np.array([0.01, np.nan, 0.04]), np.zeros(3, dtype=np.intp))
    assert found == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)
    assert np.isnan(holm(np.array([np.nan]), np.zeros(1, dtype=np.intp))).all()


def test_half_a_standard_deviation_takes_34_pairs() -> None:
    assert seeds_needed(np.array([0.5, -0.5]), 0.05).tolist() == [34, 34]  # Cohen (1988); G*Power's paired t test


@given(st.floats(0.15, 2), st.floats(1e-3, 0.2), st.sampled_from([1, 2]))
def test_seeds_needed_are_the_first_with_the_power(effect: float, alpha: float, sides: int) -> None:
    found = seeds_needed(np.array([effect]), alpha, sides=sides)[0]
    theirs = TTestPower()  # NaN at effects and levels much beyond these
    side = "two-sided" if sides == 2 else "larger"
    powers = [theirs.power(effect, n, alpha, alternative=side) if n > 1 else 0 for n in (found - 1, found)]
    assert found == 2 or powers[0] < 0.8 + 1e-4
    assert powers[1] >= 0.8 - 1e-4


def test_power_is_that_of_statsmodels() -> None:
    theirs = TTestPower().power(0.4, 12, 0.05, alternative="two-sided")
    assert t_power(np.array([0.4]), np.array([12.0]), 0.05)[0] == pytest.approx(theirs)


def test_effects_too_small_or_on_the_wrong_side_are_never_seen() -> None:
    effects = np.array([0.0, 1e-3, np.nan, -0.5])
    assert np.isnan(seeds_needed(effects, 0.05, sides=1)).all()
    assert seeds_needed(np.array([0.09]), 0.05)[0] < MOST_SEEDS
    assert np.isnan(seeds_needed(np.array([0.08]), 0.05)).all()  # 1,229
