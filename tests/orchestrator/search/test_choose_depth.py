"""Choosing a depth: what is run next, and the promised error rate of whole searches by simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis.rows import Floats
from orchestrator.analysis.two_way import BEYOND, WITHIN
from orchestrator.search.choose_depth import Budget, Why, end_reason, spread
from tests.examples import examples
from tests.orchestrator.search.drawn_losses import (
    TOLERANCE,
    WORST,
    Losses,
    World,
    chosen,
    decided,
    rates,
    savings,
    search,
    wanted,
)

SEEDS = range(10)
SMALL = [0.0004, -0.0003, 0.0001, 0.0002, -0.0002, 0.0003, 0.0, -0.0001, 0.0002, 0.0001]  # losses well within
LARGE = [0.0204, 0.0197, 0.0201, 0.0202, 0.0198, 0.0203, 0.02, 0.0199, 0.0202, 0.0201]
NEAR = [TOLERANCE + off for off in (-0.004, 0.004, -0.003, 0.003, 0.002, -0.002, 0.001, -0.001, 0.005, -0.005)]
losses_of_a_depth = st.lists(st.floats(-0.03, 0.03).map(lambda loss: round(loss, 5)), min_size=10, max_size=10)


def first(n: int, losses: Sequence[float]) -> dict[int, Floats | None]:
    """The losses of the first `n` seeds, sentences unknown."""
    return {seed: np.array([loss]) for seed, loss in enumerate(losses[:n])}


def reason(losses: Sequence[Losses], seeds: Sequence[int] = SEEDS) -> Why:
    """Why a search with these losses ends, or `open`."""
    return end_reason(decided(losses, seeds), list(map(set, losses)), seeds, savings(len(losses)))


@pytest.mark.slow
def test_at_most_5_percent_of_searches_choose_a_depth_that_loses_too_much() -> None:
    found = rates(World(WORST, 0.4), 40, slots=4, seed=1)
    assert found.wrong <= 0.08
    assert found.spent <= 0.75 * (1 + len(WORST)) * len(SEEDS)


@given(losses_of_a_depth, st.sets(st.integers(0, 9)))
@settings(deadline=None, max_examples=examples(30))
def test_it_does_not_matter_in_which_order_seeds_end(losses: list[float], done: set[int]) -> None:
    known = {seed: np.array([losses[seed]]) for seed in sorted(done)}
    assert wanted([dict(reversed(known.items()))], SEEDS) == wanted([known], SEEDS)


@given(st.lists(losses_of_a_depth, min_size=1, max_size=4))
@settings(deadline=None, max_examples=examples(10))
def test_a_search_ends_with_what_is_decided_of_its_trials(depths: list[list[float]]) -> None:
    found, spent = search(np.asarray(depths)[..., None], np.random.default_rng(0), slots=3)
    assert -1 <= found < len(depths)
    assert spent <= 10 * (1 + len(depths))


def test_a_curve_of_depths_comes_first_seed_by_seed_the_most_frozen_first_or_the_cheapest_where_times_are_known() -> (
    None
):
    wants = wanted([{} for _ in range(7)], SEEDS)
    assert spread(7) == [0, 2, 4, 6]
    assert [(want.candidate, want.seed) for want in wants[:8]] == [(i, s) for s in (0, 1) for i in (6, 4, 2, 0)]
    assert {want.chance for want in wants[:12]} == {1.0}
    times = Budget(of_trial=(9.0, 1.0, 2.0, 3.0))
    assert [want.candidate for want in wanted([{}, {}, {}], SEEDS, budget=times)[:3]] == [0, 1, 2]


def test_after_the_curve_no_seed_goes_to_what_saves_less_than_the_choice_or_is_ruled_out() -> None:
    near = [0.002, 0.004, 0.0005]
    wants = wanted([first(3, near), first(10, SMALL), first(3, near), first(10, LARGE)], SEEDS)
    assert {want.candidate for want in wants} == {2}


def test_of_depths_with_a_fair_chance_the_most_saving_one_comes_first_however_sure_a_lesser_one_is() -> None:
    """If it is shown, the lesser one is not needed; if not, its baselines serve the other."""
    near, sure, hopeless = [0.003, 0.0042, 0.0021], [0.0003, 0.0001, 0.0002], [0.02, 0.019, 0.021]
    wants = wanted([first(3, sure), first(3, near), first(3, hopeless)], SEEDS)
    assert (wants[0].candidate, wants[0].seed) == (1, 3)


def test_with_time_given_the_search_goes_on_until_every_depth_has_seeds_and_nothing_is_open() -> None:
    """In short nothing is left to run: what saves most is shown. With time the depths without seeds are run too."""
    small, time = first(10, SMALL), Budget(seconds=1e6)
    losses: list[Losses] = [small, small, {}, small, small]
    assert (wanted(losses, SEEDS), reason(losses)) == ([], "decided")
    assert [(want.candidate, want.seed) for want in wanted(losses, SEEDS, budget=time)] == [(2, 0), (2, 1), (2, 2)]
    lost = first(7, [0.006, 0.009, 0.007, 0.004, 0.009, 0.006, 0.005])  # no seed left could save it
    assert (wanted([lost], SEEDS), reason([lost])) == ([], "hopeless")
    assert [want.seed for want in wanted([lost], SEEDS, budget=time)] == [7, 8, 9]
    short = Budget(seconds=4.5, of_trial=(1.0, 1.0))
    assert [want.seed for want in wanted([first(3, [0.001, 0.0, -0.001])], SEEDS, budget=short)] == [3, 4]


def test_a_depth_beyond_the_tolerance_bars_no_deeper_one_and_a_loss_of_exactly_the_tolerance_is_within_it() -> None:
    losses = [first(10, SMALL), first(10, LARGE), first(10, SMALL)]
    of = decided(losses, SEEDS)
    assert (chosen(of), wanted(losses, SEEDS), reason(losses)) == (2, [], "decided")
    assert of.table["verdict"].tolist() == [WITHIN, BEYOND, WITHIN]
    exactly = [TOLERANCE + 1e-11 * sign for sign in (1, -1) * 5]
    assert chosen(decided([first(10, exactly)], SEEDS)) == 0


def test_seeds_used_up_and_candidates_that_stay_undecided_bar_no_other() -> None:
    """Equal losses of a shallow freeze show nothing, and neither does one too near to the tolerance."""
    losses = [0.004, -0.001, 0.006, 0.002, 0.005, 0.0, 0.007, 0.003, 0.001, 0.003]
    assert reason([first(10, losses)]) == reason([first(4, losses)], range(4)) == "seeds_used"
    of = decided([first(10, [0.0] * 10), first(10, NEAR), first(10, SMALL)], SEEDS)
    assert of.table["verdict"].tolist() == ["not decided", "not decided", WITHIN]
    assert chosen(of) == 2


def test_equal_losses_are_no_certainty_unless_their_sentences_differ() -> None:
    assert reason([first(10, [0.0] * 10)]) == "no_spread"
    values = TOLERANCE * np.tile([0.5, -0.5], 200)
    assert chosen(decided([dict.fromkeys(SEEDS, values)], SEEDS)) == 0
