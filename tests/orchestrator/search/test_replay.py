"""Searches on a finished sweep of the starter model: the short form of `python -m tests.lab.benchmarks.searches`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from dashboards.cli import app
from orchestrator.extras.store_care.check import check_store
from orchestrator.search.steering import front
from orchestrator.store import open_store
from orchestrator.sweeps.search_spec import RacingSpec, ScheduleSpec
from tests.assets.make_search_store import key_again
from tests.examples import ALL, first
from tests.lab.benchmarks.search_depths import Draw, deepest, near_chains
from tests.lab.benchmarks.search_table import STORE, SWEEP, Kind, World, area, chosen, hypervolume, in_order, seen_front

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
    assert report.counted.states == {"completed": 9 * 6 * 2 * 5}
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


# --- schedules and races


@pytest.mark.parametrize("slots", first(1, [8, 1]))
@pytest.mark.parametrize("kind", ["asha", "halving", "race"])
def test_halving_and_races_find_the_best_cell_with_two_fifths_of_the_epochs(
    world: World, kind: str, slots: int
) -> None:
    rule = RacingSpec() if kind == "race" else ScheduleSpec.model_validate({"kind": kind})
    found = [chosen(world, rule, number, slots=slots) for number in range(SEARCHES)]
    shares = [one.share for one in found]
    assert np.mean(shares) <= 0.4
    assert max(shares) <= (0.42 if kind == "race" else 0.4)  # with some orders of the seeds the first ones tell less
    assert np.mean([one.same for one in found]) >= (1 if kind == "race" else 0.9)


# --- a depth


@pytest.mark.parametrize("draw", first(1, ["seeds", "normal"]))
@pytest.mark.parametrize("tolerance", [1.0, *(pytest.param(points, marks=pytest.mark.slow) for points in (0.5, 2.0))])
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


# --- the command


def command(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in ("launch", "--sweep", SWEEP, *words)])


def simulated(store: Path, *settings: str) -> dict[str, Any]:
    done = command("--simulate", store, "--json", *(word for one in settings for word in ("--set", one)))
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_sweep_is_simulated_from_the_command_line(world: World, tmp_path: Path, monkeypatch: Any) -> None:
    key_again(open_store(STORE), open_store(store := tmp_path / "keyed again", must_exist=False))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    whole, asha = simulated(store), simulated(store, "schedule=asha")
    assert (whole["trials"], whole["epochs"], whole["found"]) == (540, world.epochs, [])
    assert asha["epochs"] < 0.4 * world.epochs
    assert f"score {100 * world.true(world.winner):.2f}" in asha["found"][0]
    assert list(Path().iterdir()) == []  # nothing was written


def test_a_trial_that_the_store_does_not_have_is_named_with_the_way_out(tmp_path: Path) -> None:
    done = command("--simulate", STORE, "--set", "trial.train_size=50")
    assert done.exit_code == 3
    assert "_n50_s0_" in done.output
    assert "Run the sweep there as a grid." in done.output
    nothing = command("--simulate", tmp_path / "nothing")
    assert (nothing.exit_code, "no store there" in nothing.output) == (3, True)
