"""Choosing a depth: the promised error rate by simulation, what is spent, and what is said where nothing is sure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from orchestrator.analysis.rows import Floats
from orchestrator.search.choose_depth import DepthAnswer, DepthGoal, Losses, Spend, answer, decide, paired
from tests.examples import examples
from tests.lab.benchmarks.choose_depth import TOLERANCE, WORST, World, lognormal, normal, rates, search

GOAL = DepthGoal(TOLERANCE)
SEEDS = range(10)
SMALL = [0.0004, -0.0003, 0.0001, 0.0002, -0.0002, 0.0003, 0.0, -0.0001, 0.0002, 0.0001]  # losses well within
LARGE = [0.0204, 0.0197, 0.0201, 0.0202, 0.0198, 0.0203, 0.02, 0.0199, 0.0202, 0.0201]
WITHIN = "shown to lose at most the tolerance"
losses_of_a_depth = st.lists(st.floats(-0.03, 0.03).map(lambda loss: round(loss, 5)), min_size=10, max_size=10)


def first(n: int, losses: Sequence[float]) -> dict[int, Floats | None]:
    """The losses of the first `n` seeds, sentences unknown."""
    return {seed: np.array([loss]) for seed, loss in enumerate(losses[:n])}


def by_sentence(n: int, deviation: float, n_sentences: int = 400) -> dict[int, Floats | None]:
    """Losses of the first `n` seeds of mean 0, in which the sentences differ and the seeds hardly do."""
    rng = np.random.default_rng(0)
    sentences = rng.standard_normal(n_sentences)
    values = deviation * (sentences - sentences.mean()) * np.sqrt(n_sentences)
    return {seed: values + 1e-4 * rng.standard_normal() for seed in range(n)}


def answered(losses: Sequence[Losses], goal: DepthGoal = GOAL, seeds: Sequence[int] = SEEDS) -> DepthAnswer:
    found = decide(goal, losses, seeds)
    assert isinstance(found, DepthAnswer)
    return found


def asked(losses: Sequence[Losses], goal: DepthGoal = GOAL, seeds: Sequence[int] = SEEDS) -> Spend:
    found = decide(goal, losses, seeds)
    assert isinstance(found, Spend)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 4])
def test_at_most_5_percent_of_searches_choose_a_depth_that_loses_too_much(slots: int) -> None:
    """The worst case of normal losses; 1,500 searches gave 1 %."""
    found = rates(World(WORST, 0.4, normal), GOAL, 200, slots=slots, seed=1)
    assert found.wrong <= 0.03
    assert found.right >= 0.85
    assert found.spent <= 0.6 * len(WORST) * GOAL.max_seeds


@pytest.mark.slow
@pytest.mark.parametrize("n_sentences", [1, 500])
def test_nor_do_searches_with_skewed_losses(n_sentences: int) -> None:
    """200 of a rate of at most 5 %: standard error 1.5 %."""
    world = World(WORST, 0.4, lognormal(0.5), sentences=0.15, n_sentences=n_sentences)
    assert rates(world, GOAL, 200, seed=2).wrong <= 0.075


def test_a_t_test_at_every_look_breaks_these_bounds() -> None:
    """What they can find: three to ten normal values of the limit's mean, each look as if it were the only one."""
    values = np.random.default_rng(3).standard_normal((2000, 10))
    p = [stats.ttest_1samp(values[:, :n], 0.0, axis=1, alternative="less").pvalue for n in range(3, 11)]
    assert np.mean(np.min(p, axis=0) <= 0.05) > 0.1


def test_sentences_that_differ_are_not_averaged_away_by_seeds() -> None:
    """Seeds alone would be sure; over sentences the standard error is 0.7 tolerances."""
    found = answered([by_sentence(10, 0.7 * TOLERANCE)])
    assert found.known[0].verdict == "not decided"
    assert found.known[0].n_sentences == 400
    assert found.further is not None
    assert found.further.further_seeds is None
    assert found.further.further_sentences is not None
    means = paired(by_sentence(10, 0.7 * TOLERANCE), SEEDS).mean(axis=1).tolist()
    assert answered([first(10, means)]).known[0].verdict == WITHIN


def test_losses_of_which_one_has_no_sentences_are_taken_over_seeds_alone() -> None:
    losses = by_sentence(3, TOLERANCE) | {1: np.array([0.002])}
    assert paired(losses, SEEDS).shape == (3, 1)
    assert answer(GOAL, [losses], SEEDS).known[0].n_sentences is None


@given(st.lists(losses_of_a_depth, min_size=1, max_size=4), st.integers(3, 9))
@settings(deadline=None, max_examples=examples(60))
def test_a_verdict_stands_whatever_comes_later(depths: list[list[float]], n: int) -> None:
    before = answer(GOAL, [first(n, losses) for losses in depths], SEEDS)
    after = answer(GOAL, [first(10, losses) for losses in depths], SEEDS)
    for early, late in zip(before.known, after.known, strict=True):
        assert early.verdict in ("not decided", late.verdict)
        assert late.low >= early.low
        assert late.high <= early.high
    assert (-1 if before.chosen is None else before.chosen) <= (-1 if after.chosen is None else after.chosen)


@given(losses_of_a_depth, st.sets(st.integers(0, 9)))
@settings(deadline=None, max_examples=examples(60))
def test_a_loss_counts_when_all_seeds_before_it_are_in(losses: list[float], done: set[int]) -> None:
    n = next((seed for seed in SEEDS if seed not in done), 10)
    scattered = answer(GOAL, [{seed: np.array([losses[seed]]) for seed in sorted(done, reverse=True)}], SEEDS)
    assert repr(scattered.known) == repr(answer(GOAL, [first(n, losses)], SEEDS).known)  # NaN is not equal to itself


@given(st.lists(losses_of_a_depth, min_size=1, max_size=4))
@settings(deadline=None, max_examples=examples(30))
def test_a_search_ends_with_the_chain_of_depths_shown(depths: list[list[float]]) -> None:
    found, spent = search(GOAL, np.asarray(depths)[..., None], np.random.default_rng(0), slots=3)
    shown = [known.verdict == WITHIN for known in found.known]
    assert (-1 if found.chosen is None else found.chosen) == (shown.index(False) if False in shown else len(shown)) - 1
    assert spent <= 10 * len(depths)
    for known in found.known:
        assert (known.high <= TOLERANCE + 1e-9) == (known.verdict == WITHIN) or known.low > TOLERANCE


def test_what_is_asked_for_first_is_sure_to_be_needed() -> None:
    wants = asked([{}, {}]).wants
    assert [(want.candidate, want.seed, want.chance) for want in wants[:3]] == [(0, 0, 1), (0, 1, 1), (0, 2, 1)]
    assert {(want.candidate, want.seed) for want in wants} == {(k, seed) for k in range(2) for seed in SEEDS}
    chances = [want.chance for want in wants]
    assert chances == sorted(chances, reverse=True)


def test_a_clear_depth_ends_early_and_the_next_is_asked_for() -> None:
    wants = asked([first(5, SMALL), {}]).wants
    assert {want.candidate for want in wants} == {1}
    assert wants[0].seed == 0


def test_parallel_slots_run_the_next_depth_where_the_front_is_likely_to_be_shown() -> None:
    hopeful = asked([first(3, [0.001, 0.0, -0.001]), {}]).wants
    assert (1, 0) in [(want.candidate, want.seed) for want in hopeful[:6]]
    doubtful = asked([first(3, [0.004, -0.002, 0.003]), {}]).wants
    assert [want.candidate for want in doubtful[:4]] == [0] * 4


def test_a_depth_beyond_the_tolerance_ends_the_search_and_deeper_ones_are_not_chosen() -> None:
    found = answered([first(10, SMALL), first(10, LARGE), first(10, SMALL)])
    assert (found.chosen, found.next, found.why, found.further) == (0, 1, "beyond", None)
    assert [known.verdict for known in found.known] == [WITHIN, "shown to lose more", WITHIN]
    assert found.known[1].low > TOLERANCE


def test_where_all_are_within_the_deepest_is_chosen() -> None:
    found = answered([first(10, SMALL)] * 3)
    assert (found.chosen, found.next, found.why) == (2, None, "all_within")


def test_a_loss_of_exactly_the_tolerance_is_within_it() -> None:
    """Losses spread by less than rounding around the tolerance, as scores of equal counts are."""
    losses = [TOLERANCE + 1e-11 * sign for sign in (1, -1) * 5]
    assert answered([first(10, losses)]).chosen == 0


def test_a_depth_that_no_seed_left_could_save_is_given_up() -> None:
    losses = [0.006, 0.009, 0.007, 0.004, 0.009, 0.006, 0.007]
    found = answered([first(7, losses)])
    assert (found.chosen, found.why, found.known[0].verdict) == (None, "hopeless", "not decided")


def test_seeds_used_up_are_answered_with_how_many_more() -> None:
    losses = [0.004, -0.001, 0.006, 0.002, 0.005, 0.0, 0.007, 0.003, 0.001, 0.003]
    found = answered([first(10, losses)])
    assert (found.chosen, found.why) == (None, "seeds_used")
    assert found.further is not None
    assert found.further.further_seeds == 12  # a mean 0.77 deviations inside the tolerance
    assert found.further.further_sentences is None
    assert answered([first(4, losses)], seeds=range(4)).why == "seeds_used"


def test_a_mean_at_the_tolerance_is_too_near_to_tell() -> None:
    losses = [TOLERANCE + off for off in (-0.004, 0.004, -0.003, 0.003, 0.002, -0.002, 0.001, -0.001, 0.005, -0.005)]
    found = answered([first(10, losses)])
    assert found.further is not None
    assert found.further.further_seeds is None


def test_equal_losses_are_no_certainty() -> None:
    found = answered([first(10, [0.0] * 10)])
    assert (found.chosen, found.why, found.further) == (None, "no_spread", None)
    known = found.known[0]
    assert (known.has_spread, known.low, known.high) == (False, -math.inf, math.inf)


def test_equal_losses_of_seeds_whose_sentences_differ_are_judged_over_sentences() -> None:
    values = TOLERANCE * np.tile([0.5, -0.5], 200)
    assert answered([dict.fromkeys(SEEDS, values)]).chosen == 0


def test_a_seed_that_failed_is_left_out_and_replaced() -> None:
    failed = first(3, [0.0, 0.001, -0.001]) | {0: None}
    wants = asked([failed], seeds=range(12)).wants
    assert [want.seed for want in wants] == list(range(3, 11))  # ten losses in all, the eleventh seed for the first
    assert answer(GOAL, [failed], range(12)).known[0].n == 2


def test_a_budget_used_up_is_answered_with_what_is_known() -> None:
    found = answer(GOAL, [first(10, SMALL), first(2, SMALL), {}], SEEDS)
    assert (found.chosen, found.next, found.why) == (0, 1, "open")
    assert found.known[1].high == math.inf
    assert math.isnan(found.known[2].mean)


def test_no_candidates_need_no_seeds() -> None:
    assert answered([]) == DepthAnswer(None, (), "all_within", None)


def test_errors_of_a_goal_are_reported_together() -> None:
    with pytest.raises(
        ValueError, match=r"tolerance: -1 must .*; confidence: 2 must .*; min_seeds: 1 must .*; max_seeds"
    ):
        DepthGoal(-1, 2, min_seeds=1, max_seeds=0)


@pytest.mark.parametrize(
    ("losses", "seeds", "message"),
    [
        ([{}], [1, 1], "a seed twice"),
        ([{7: np.zeros(1)}], [1, 2], "candidate 0: seed 7 is not among"),
        ([{}, {1: np.array([math.inf])}], [1, 2], "candidate 1, seed 1: a loss is not finite; pass a failed seed as"),
    ],
)
def test_losses_that_cannot_be_are_refused(losses: list[Losses], seeds: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decide(GOAL, losses, seeds)
