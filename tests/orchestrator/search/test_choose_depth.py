"""Choosing a depth: what is run, the promised error rate by simulation, what is said where nothing is sure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from orchestrator.analysis.rows import Floats
from orchestrator.analysis.two_way import Folds
from orchestrator.search.choose_depth import (
    Budget,
    DepthAnswer,
    DepthGoal,
    Losses,
    Spend,
    answer,
    decide,
    paired,
    spread,
)
from tests.examples import examples
from tests.lab.benchmarks.choose_depth import (
    ALL,
    ASKED,
    TOLERANCE,
    WORST,
    World,
    exponential,
    lognormal,
    normal,
    rates,
    savings,
    search,
    within,
)

GOAL = DepthGoal(ASKED)
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


def now(losses: Sequence[Losses], seeds: Sequence[int] = SEEDS) -> DepthAnswer:
    return answer(GOAL, losses, seeds, savings(len(losses)))


def answered(losses: Sequence[Losses], goal: DepthGoal = GOAL, seeds: Sequence[int] = SEEDS) -> DepthAnswer:
    found = decide(goal, losses, seeds, savings(len(losses)))
    assert isinstance(found, DepthAnswer)
    return found


def asked(
    losses: Sequence[Losses],
    goal: DepthGoal = GOAL,
    seeds: Sequence[int] = SEEDS,
    saved: Sequence[float] | None = None,
    budget: Budget = Budget(),  # noqa: B008
) -> Spend:
    found = decide(goal, losses, seeds, savings(len(losses)) if saved is None else saved, budget)
    assert isinstance(found, Spend)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 4])
def test_at_most_5_percent_of_searches_choose_a_depth_that_loses_too_much(slots: int) -> None:
    found = rates(World(WORST, 0.4, normal), GOAL, 100, slots=slots, seed=1)
    assert found.wrong <= 0.03
    assert found.spent <= 0.75 * (1 + len(WORST)) * GOAL.max_seeds


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [
        World(WORST, 0.4, lognormal(0.5), sentences=0.15, n_sentences=500),
        World(ALL, 0.4, exponential),
        World(ALL, 0.1, normal, sentences=0.3, n_sentences=500),
        World(ALL, 0.4, exponential, folds=5),
    ],
    ids=["skewed, sentences", "all a hair beyond, exponential", "all a hair beyond, mostly sentences", "5 folds"],
)
def test_nor_do_searches_in_the_worst_arrangements(world: World) -> None:
    """100 of a rate of at most 5 %: standard error 2.2 %."""
    assert rates(world, GOAL, 100, seed=2).wrong <= 0.08


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


def test_folds_need_more_examples_where_seeds_without_them_would_do() -> None:
    def judged(size: float, folds: Folds | None = None) -> DepthAnswer:
        return answer(GOAL, [first(10, [size * TOLERANCE, -size * TOLERANCE] * 5)], SEEDS, savings(1), folds)

    alone, folded = judged(0.9), judged(0.9, Folds(5, 260))
    assert alone.further is not None
    assert alone.further.further_seeds == 5
    assert folded.known[0].n_sentences == 260
    assert folded.further is not None
    assert folded.further.further_seeds is None
    assert folded.further.sentences_with_all_seeds is not None
    assert judged(0.7).known[0].verdict == judged(0.1, Folds(5, 260)).known[0].verdict == WITHIN


def test_losses_of_which_one_has_no_sentences_are_taken_over_seeds_alone() -> None:
    losses = by_sentence(3, TOLERANCE) | {1: np.array([0.002])}
    assert paired(losses, SEEDS).shape == (3, 1)
    assert now([losses]).known[0].n_sentences is None


@given(losses_of_a_depth, st.sets(st.integers(0, 9)))
@settings(deadline=None, max_examples=examples(60))
def test_it_does_not_matter_in_which_order_seeds_end(losses: list[float], done: set[int]) -> None:
    known = {seed: np.array([losses[seed]]) for seed in sorted(done)}
    assert repr(now([dict(reversed(known.items()))])) == repr(now([known]))  # NaN is not equal to itself


@given(st.lists(losses_of_a_depth, min_size=1, max_size=4))
@settings(deadline=None, max_examples=examples(30))
def test_a_search_chooses_the_most_saving_depth_that_is_shown(depths: list[list[float]]) -> None:
    found, spent = search(GOAL, np.asarray(depths)[..., None], np.random.default_rng(0), slots=3)
    shown = [index for index, known in enumerate(found.known) if known.verdict == WITHIN]
    assert found.chosen == max(shown, default=None)
    assert spent <= 10 * (1 + len(depths))
    for known in found.known:
        assert (known.high <= TOLERANCE + 1e-9) == (known.verdict == WITHIN)


def test_a_curve_of_depths_comes_first_seed_by_seed_the_most_frozen_first_or_the_cheapest_where_times_are_known() -> (
    None
):
    wants = asked([{} for _ in range(7)]).wants
    assert spread(7) == [0, 2, 4, 6]
    assert [(want.candidate, want.seed) for want in wants[:8]] == [(i, s) for s in (0, 1) for i in (6, 4, 2, 0)]
    assert {want.chance for want in wants[:12]} == {1.0}
    times = Budget(of_trial=(9.0, 1.0, 2.0, 3.0))
    assert [want.candidate for want in asked([{}, {}, {}], budget=times).wants[:3]] == [0, 1, 2]


def test_after_the_curve_no_seed_goes_to_what_saves_less_than_the_choice_or_is_ruled_out() -> None:
    near = [0.002, 0.004, 0.0005]
    wants = asked([first(3, near), first(10, SMALL), first(3, near), first(10, LARGE)]).wants
    assert {want.candidate for want in wants} == {2}


def test_of_depths_with_a_fair_chance_the_most_saving_one_comes_first_however_sure_a_lesser_one_is() -> None:
    """If it is shown, the lesser one is not needed; if not, its baselines serve the other."""
    near, sure, hopeless = [0.003, 0.0042, 0.0021], [0.0003, 0.0001, 0.0002], [0.02, 0.019, 0.021]
    wants = asked([first(3, sure), first(3, near), first(3, hopeless)]).wants
    assert (wants[0].candidate, wants[0].seed) == (1, 3)


def test_what_saves_too_little_is_no_candidate_and_is_tested_at_no_cost_to_the_others() -> None:
    saved = [0.013, 0.2, 0.4]
    found = answer(GOAL, [first(10, SMALL), {}, {}], SEEDS, saved)
    assert (found.chosen, found.open) == (None, (1, 2))
    alone = answer(GOAL, [first(4, SMALL)], SEEDS, [0.4])
    assert answer(GOAL, [{}, first(4, SMALL)], SEEDS, [0.01, 0.4]).known[1] == alone.known[0]


def test_with_time_given_the_search_goes_on_until_every_depth_has_seeds_and_nothing_is_open() -> None:
    """In short nothing is left to run: what saves most is shown. With time the depths without seeds are run too."""
    small, time = first(10, SMALL), Budget(seconds=1e6)
    losses: list[Losses] = [small, small, {}, small, small]
    assert answered(losses).why == "decided"
    assert [(want.candidate, want.seed) for want in asked(losses, budget=time).wants] == [(2, 0), (2, 1), (2, 2)]
    lost = first(7, [0.006, 0.009, 0.007, 0.004, 0.009, 0.006, 0.007])  # no seed left could save it
    found = answered([lost])
    assert (found.chosen, found.why, found.known[0].verdict) == (None, "hopeless", "not decided")
    assert [want.seed for want in asked([lost], budget=time).wants] == [7, 8, 9]
    short = Budget(seconds=4.5, of_trial=(1.0, 1.0))
    assert [want.seed for want in asked([first(3, [0.001, 0.0, -0.001])], budget=short).wants] == [3, 4]


@pytest.mark.slow
def test_in_a_clear_case_40_trials_find_the_deepest_harmless_freeze_that_a_grid_of_80_finds() -> None:
    world, rng = World((0.0, 0.05, 0.1, 0.15, 0.3, 2.5, 4.0), 0.15, normal), np.random.default_rng(4)
    assert np.mean([within(GOAL, world.draw(rng, 10), 40) == world.deepest for _ in range(20)]) >= 0.8


def test_a_depth_beyond_the_tolerance_bars_no_deeper_one_and_a_loss_of_exactly_the_tolerance_is_within_it() -> None:
    found = answered([first(10, SMALL), first(10, LARGE), first(10, SMALL)])
    assert (found.chosen, found.nearest, found.why, found.further) == (2, None, "decided", None)
    assert [known.verdict for known in found.known] == [WITHIN, "shown to lose more", WITHIN]
    assert found.known[1].low > TOLERANCE
    losses = [TOLERANCE + 1e-11 * sign for sign in (1, -1) * 5]
    assert answered([first(10, losses)]).chosen == 0


NEAR = [TOLERANCE + off for off in (-0.004, 0.004, -0.003, 0.003, 0.002, -0.002, 0.001, -0.001, 0.005, -0.005)]


def test_seeds_used_up_are_answered_with_how_many_more_unless_the_mean_is_too_near_to_tell() -> None:
    losses = [0.004, -0.001, 0.006, 0.002, 0.005, 0.0, 0.007, 0.003, 0.001, 0.003]
    found, near = answered([first(10, losses)]), answered([first(10, NEAR)])
    assert (found.chosen, found.why) == (None, "seeds_used")
    assert found.further is not None
    assert found.further.further_seeds == 13  # a mean 0.77 deviations inside the tolerance
    assert found.further.further_sentences is None
    assert answered([first(4, losses)], seeds=range(4)).why == "seeds_used"
    assert near.further is not None
    assert near.further.further_seeds is None


def test_a_candidate_that_stays_undecided_bars_no_other() -> None:
    """Equal losses of a shallow freeze show nothing, and neither does one too near to the tolerance."""
    found = now([first(10, [0.0] * 10), first(10, NEAR), first(10, SMALL)])
    assert [known.verdict for known in found.known] == ["not decided", "not decided", WITHIN]
    assert found.chosen == 2


def test_equal_losses_are_no_certainty_unless_their_sentences_differ() -> None:
    found = answered([first(10, [0.0] * 10)])
    assert (found.chosen, found.why, found.further) == (None, "no_spread", None)
    known = found.known[0]
    assert (known.has_spread, known.low, known.high) == (False, -math.inf, math.inf)
    values = TOLERANCE * np.tile([0.5, -0.5], 200)
    assert answered([dict.fromkeys(SEEDS, values)]).chosen == 0


def test_chances_are_known_where_two_seeds_differ_on_a_few_sentences_only() -> None:
    """Three such seeds have too few degrees of freedom for an interval: there is no chance that it shows anything."""
    values = np.zeros(34)
    values[3] = 1.0
    few: Losses = {0: values, 1: np.zeros(34)}
    assert all(0 <= want.chance <= 1 for want in asked([few, {}]).wants)


def test_a_seed_that_failed_is_left_out_and_replaced() -> None:
    failed = first(3, [0.0, 0.001, -0.001]) | {0: None}
    wants = asked([failed], seeds=range(12)).wants
    assert [want.seed for want in wants] == list(range(3, 11))  # ten losses in all, the eleventh seed for the first
    assert now([failed], range(12)).known[0].n == 2


def test_a_budget_used_up_is_answered_with_what_is_known_and_no_candidates_need_no_seeds() -> None:
    found = now([first(10, SMALL), first(2, SMALL), {}])
    assert (found.chosen, found.open, found.nearest, found.why) == (0, (1, 2), 1, "open")
    assert found.known[1].high == math.inf
    assert math.isnan(found.known[2].mean)
    assert answered([]) == DepthAnswer(None, (), (), "decided", None, None)
