"""Searches and schedulers together, on a table whose best cell is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.search.optuna_search import AdaptiveCells
from orchestrator.search.schedule import NoEarlyStopping, scheduler_of
from orchestrator.search.simulate import SimulatedCost, simulate
from orchestrator.search.steering import FixedCells, Steering, front
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import ScheduleSpec, SearchSpec
from orchestrator.sweeps.space import Axis
from tests.orchestrator.search.worlds import DEPTHS, EPOCHS, RATES, SIX_LAYERS, grid_of, nothing_known, resolver, table

SPACE = {"freeze.depth": Axis(choice=list(DEPTHS)), "optim.lr": Axis(choice=list(RATES))}
GRID = len(DEPTHS) * len(RATES) * EPOCHS  # epochs, with one seed


def scheduled(folder: Path, schedule: ScheduleSpec, seeds: tuple[int, ...] = (0,)) -> tuple[Steering, SimulatedCost]:
    source = Steering(FixedCells(grid_of(seeds)), scheduler_of(schedule), schedule, nothing_known(folder))
    return source, simulate(source, table(seeds), slots=4)


def best(source: Steering) -> tuple[int, float]:
    (found,) = front(source.cells, ("score",))
    return found.specs[0].freeze.depth, found.specs[0].optim.lr


def test_without_a_schedule_every_trial_runs_to_its_end(tmp_path: Path) -> None:
    source, spent = scheduled(tmp_path, ScheduleSpec())
    assert (spent.epochs, spent.trials) == (GRID, GRID / EPOCHS)
    assert best(source) == (2, 1e-3)
    assert source.is_over


@pytest.mark.parametrize("kind", ["asha", "halving"])
def test_halving_finds_the_best_cell_with_fewer_epochs_and_promoted_cells_go_on_with_all_their_seeds(
    tmp_path: Path, kind: str
) -> None:
    source, spent = scheduled(tmp_path, ScheduleSpec.model_validate({"kind": kind}), (0, 1, 2))
    assert best(source) == (2, 1e-3)
    assert spent.epochs <= 0.4 * GRID * 3
    lengths = [{len(seen.evaluations) for seen in cell.progress.values()} for cell in source.cells]
    assert {*map(frozenset, lengths)} == {frozenset([n]) for n in (1, 3, EPOCHS)}
    # Rungs between two evaluations are those of the next one.
    fine, spent = scheduled(tmp_path, ScheduleSpec.model_validate({"kind": kind, "first": 0.25}))
    assert {len(seen.evaluations) for cell in fine.cells for seen in cell.progress.values()} >= {1, EPOCHS}
    assert best(fine) == (2, 1e-3)
    assert spent.epochs < GRID


def test_with_one_slot_a_rung_of_halving_waits_for_all_cells_that_leave_the_rung_below(tmp_path: Path) -> None:
    schedule = ScheduleSpec(kind="halving")
    source = Steering(FixedCells(grid_of()), scheduler_of(schedule), schedule, nothing_known(tmp_path))
    simulate(source, table(), slots=1)
    assert Counter(len(cell.pauses) for cell in source.cells) == {1: 49 - 17, 2: 17}
    assert sum(cell.until is None for cell in source.cells) == 6


def test_the_median_rule_stops_only_cells_below_the_median(tmp_path: Path) -> None:
    source, spent = scheduled(tmp_path, ScheduleSpec(kind="median", first=3))
    stopped = [cell for cell in source.cells if set(cell.over.values()) == {State.PRUNED}]
    assert 5 < len(stopped) < len(source.cells)
    assert spent.epochs < GRID
    assert best(source) == (2, 1e-3)


def test_the_same_seed_gives_the_same_suggestions_and_no_cell_twice(tmp_path: Path) -> None:
    ids = []
    for seed in (1, 1, 2):
        search = SearchSpec(kind="tpe", cells=20, seed=seed, startup=5)
        cells = AdaptiveCells(search, SPACE, resolver((0,)), SIX_LAYERS)
        source = Steering(cells, NoEarlyStopping(), ScheduleSpec(), nothing_known(tmp_path))
        simulate(source, table())
        ids.append([cell.specs[0].trial_id for cell in source.cells])
    assert ids[0] == ids[1] != ids[2]
    assert len(set(ids[0])) == 20


def test_the_best_setting_has_its_score_on_the_split_that_selected_nothing(tmp_path: Path) -> None:
    table_of = {
        trial_id: [*records[:-1], replace(records[-1], test_score=records[-1].score - 0.1)]
        for trial_id, records in table((0, 1, 2)).items()
    }
    source = Steering(FixedCells(grid_of((0, 1, 2))), NoEarlyStopping(), ScheduleSpec(), nothing_known(tmp_path))
    simulate(source, table_of)
    dev, test, *_ = source.found()
    assert "on dev, which selected it (3 seeds)" in dev
    mean = float(dev.partition("score ")[2].split()[0])
    assert f"score {mean - 10:.2f} (" in test
    assert test.endswith("95 % interval over seeds) on test, which took no part in that")
