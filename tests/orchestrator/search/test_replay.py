"""Searches on a finished sweep of the starter model: the short form of `python -m tests.lab.benchmarks.searches`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.extras.store_care.check import check_store
from orchestrator.search.steering import front
from orchestrator.store import open_store
from orchestrator.sweeps.search_spec import ScheduleSpec
from tests.examples import ALL, first
from tests.lab.benchmarks.search_depths import Draw, deepest, near_chains
from tests.lab.benchmarks.search_table import STORE, Kind, World, area, chosen, hypervolume, in_order, seen_front

SEARCHES = 24 if ALL else 12
OBJECTIVES = ("score", "trainable_params")


@pytest.fixture(scope="module")
def world() -> World:
    return World.of()


def mean_regret(world: World, kind: Kind, cells: int) -> float:
    searched = (in_order(world, kind, number, cells) for number in range(SEARCHES))
    return float(np.mean([world.regret(best) for found in searched for best in front(found, ("score",))]))


# --- the store


def test_the_store_is_whole_has_every_trial_and_names_no_folder_of_the_machine_that_made_it(world: World) -> None:
    report = check_store(STORE)
    assert report.ok, report.findings
    assert report.states == {"completed": 9 * 6 * 2 * 5}
    assert len(world.cells) == 9 * 6 * 2
    specs = [*open_store(STORE).trials(["spec"])["spec"].to_pylist(), *map(str, open_store(STORE).sweeps())]
    assert not [spec for spec in specs if "/starter/" in spec or "/treebanks/" in spec]


# --- searches that learn


@pytest.mark.slow
def test_tpe_finds_better_cells_than_random_search_with_as_many_epochs(world: World) -> None:
    assert mean_regret(world, "tpe", 20) < 0.8 * mean_regret(world, "random", 20)


@pytest.mark.slow
def test_the_search_for_several_objectives_finds_a_better_front_than_random_search(world: World) -> None:
    def volume(kind: Kind) -> float:
        found = [in_order(world, kind, number, 20, OBJECTIVES) for number in range(SEARCHES)]
        return float(np.mean([hypervolume(world, seen_front(cells, OBJECTIVES), OBJECTIVES) for cells in found]))

    assert volume("random") < volume("pareto") <= 1


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8))
def test_the_area_is_that_of_the_squares_below_any_point(points: list[tuple[int, int]]) -> None:
    squares = {(x, y) for a, b in points for x in range(a) for y in range(b)}
    assert area(np.array(points, float)) == len(squares)


# --- schedules


@pytest.mark.parametrize("slots", first(1, [8, 1]))
def test_asha_finds_the_best_cell_with_two_fifths_of_the_epochs(world: World, slots: int) -> None:
    found = [chosen(world, ScheduleSpec(kind="asha"), number, slots=slots) for number in range(SEARCHES)]
    assert max(one.share for one in found) <= 0.4
    assert np.mean([one.same for one in found]) >= 0.9


# --- a depth


@pytest.mark.slow  # a search ends with the answer (test_one_decider), whose error test_decided has in short
@pytest.mark.parametrize("draw", ["seeds", "normal"])
@pytest.mark.parametrize("tolerance", [0.5, 1.0, 2.0])
def test_the_chosen_depth_loses_more_than_the_tolerance_as_rarely_as_promised(
    world: World, draw: Draw, tolerance: float
) -> None:
    found = [
        deepest(world, chain, tolerance, number, draw)
        for chain in near_chains(world).values()
        for number in range(SEARCHES // 2)
    ]
    wrong = sum(one.true > tolerance for one in found)
    assert wrong <= 0.05 * len(found) + 2 * np.sqrt(0.05 * 0.95 * len(found))
    assert np.mean([one.share for one in found]) < 0.7
