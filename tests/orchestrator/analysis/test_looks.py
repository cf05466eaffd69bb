"""Looking again, and several settings at once: critical values, the error of all together, what a decision takes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from orchestrator.analysis.decision_plan import PlannedLooks
from orchestrator.analysis.further_seeds import data_to_decide
from orchestrator.analysis.looks import (
    KEPT,
    adjusted_tail,
    joint_intervals,
    mean_correlation,
    shared_correlation,
    tails,
)
from orchestrator.analysis.two_way import ends, estimate, verdict
from tests.orchestrator.analysis.frames import Floats
from tests.orchestrator.analysis.test_two_way import losses

LOOKS = PlannedLooks(3, 10)
SEEDS_ALONE = np.arange(1.0, 11.0)[:, None]  # ten losses of whole seeds


def test_looks_at_seeds_alone_stop_brownian_motion_with_the_promised_error() -> None:
    """Each look's boundary, against simulated paths of the mean of known variance: at what is planned, and beyond."""
    bars = [float(tails(estimate(SEEDS_ALONE[:n]), PlannedLooks(3, 6), 0.05)) for n in range(3, 11)]
    paths = np.random.default_rng(0).standard_normal((200_000, 10)).cumsum(axis=1) / np.sqrt(np.arange(1, 11))
    stopped = paths[:, 2:] > -special.ndtri(bars)
    by_look = [stopped[:, : n - 2].any(axis=1).mean() / 0.05 for n in (3, 5, 6, 10)]
    by_plan = [KEPT * (n / 6) ** 3 for n in (3, 5, 6)]
    assert by_look == pytest.approx([*by_plan, KEPT + (1 - KEPT) * (1 - 6 / 10)], abs=0.03)  # three standard errors
    assert bars[:4] == sorted(bars[:4])
    assert bars[4:] == sorted(bars[4:], reverse=True)


def test_a_plan_spends_its_share_of_the_error_by_its_seeds_and_looks_that_see_the_same_are_one() -> None:
    x = np.repeat(np.random.default_rng(1).standard_normal((1, 100)), 10, axis=0)
    found = [float(tails(estimate(x[:n]), LOOKS, 0.025)) / 0.025 for n in (3, 6, 10)]
    assert found == pytest.approx([KEPT * 0.3**3, KEPT * 0.6**3, KEPT], rel=1e-6)
    assert tails(estimate(SEEDS_ALONE[:5]), PlannedLooks(5, 5), 0.025) == pytest.approx(KEPT * 0.025)


def test_before_the_first_look_nothing_is_shown_and_after_the_plan_looks_go_on() -> None:
    low, high = ends(of := estimate(SEEDS_ALONE[:2]), tails(of, PlannedLooks(3, 9), 0.025))
    assert np.isneginf(low)
    assert np.isposinf(high)
    planned, beyond = (estimate(SEEDS_ALONE[:n]) for n in (9, 10))
    assert 0 < tails(beyond, PlannedLooks(3, 9), 0.025) < tails(planned, PlannedLooks(3, 9), 0.025)


def test_more_seeds_or_more_sentences_are_missing_where_they_vary() -> None:
    of = estimate(0.005 + 0.004 * losses(np.random.default_rng(4), 5, 400))
    found = data_to_decide(of, LOOKS, 0.01, n_run=LOOKS.planned)
    assert found.further_seeds is not None
    assert found.further_seeds > 0
    assert found.further_sentences is None
    x = losses(np.random.default_rng(4), 5, 400, seeds=0.01)
    found = data_to_decide(estimate(0.005 + 0.05 * (x - x.mean())), PlannedLooks(3, 5), 0.01)
    assert found.further_seeds is None
    assert found.further_sentences is not None
    assert 400 < found.further_sentences < 4_000


def test_further_seeds_decide_in_about_the_promised_share() -> None:
    """From five seeds whose mean and spread happen to be the true ones."""
    rng = np.random.default_rng(5)
    first = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    first = 0.002 + 0.004 * first[:, None] / first.std(ddof=1)
    plan = PlannedLooks(3, 30)
    seeds = data_to_decide(estimate(first), plan, 0.01).further_seeds
    assert seeds is not None
    more = 0.002 + 0.004 * rng.standard_normal((2000, seeds, 1))
    of = estimate(np.concatenate([np.broadcast_to(first, (2000, 5, 1)), more], axis=1))
    share = (ends(of, tails(of, plan, 0.05))[1] <= 0.01).mean()
    assert 0.7 <= share <= 0.99  # of noncentral t, not normal, and shares of V that vary


def test_a_decided_loss_needs_nothing_and_without_a_variance_or_an_order_of_looks_nothing_is_planned() -> None:
    found = data_to_decide(estimate(0.001 * losses(np.random.default_rng(6), 10, 400)), LOOKS, 0.05)
    assert (found.further_seeds, found.further_sentences) == (0, 0)
    with pytest.raises(ValueError, match="nothing is known"):
        data_to_decide(estimate(np.zeros((3, 5))), LOOKS, 0.01)
    with pytest.raises(ValueError, match="looks from 5 to 4 seeds"):
        PlannedLooks(5, 4)


TO_EIGHT = PlannedLooks(3, 8)


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


def test_a_loss_of_exactly_the_tolerance_is_within_it() -> None:
    assert verdict(0.001, 0.91 - 0.90, 0.01) == "shown to lose at most the tolerance"  # 0.010000000000000009
    assert verdict(0.91 - 0.90, 0.02, 0.01) == "not decided"
    assert verdict(0.011, 0.02, 0.01) == "shown to lose more"
    assert verdict(np.nan, np.nan, 0.01) == "not decided"


def test_settings_with_fewer_seeds_keep_what_their_shared_seeds_say_of_the_correlation() -> None:
    x = settings_of(4, 3, 8, 60)
    even = shared_correlation([each[:6] for each in x])
    assert 0 < shared_correlation([x[0], x[1][:6], x[2][:6]]) < even
    assert shared_correlation([x[0], x[1][:, :50]]) == 0  # other sentences
    assert shared_correlation([x[0], x[1][:1]]) == 0
    fewer = joint_intervals([x[0], x[1], x[2][:6]], TO_EIGHT)
    assert joint_intervals(list(x), TO_EIGHT).tail >= fewer.tail > adjusted_tail(3, 0.0, 0.05)


def test_only_the_family_is_corrected_for_and_more_planned_looks_make_the_interval_longer() -> None:
    x = list(settings_of(2, 3, 6, 50))
    assert joint_intervals(x, TO_EIGHT, family=np.array([False, True, False])).tail == 0.05
    x = list(settings_of(6, 3, 5, 40))
    assert (joint_intervals(x, TO_EIGHT).high > joint_intervals(x, PlannedLooks(5, 5)).high).all()
    found = joint_intervals([np.zeros((5, 30)), 0.001 * losses(np.random.default_rng(5), 5, 30)], TO_EIGHT)
    assert np.isfinite(found.high).tolist() == [False, True]
