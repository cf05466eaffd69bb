"""Searches and schedulers together, on a table whose best cell is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from orchestrator.search.optuna_search import AdaptiveCells
from orchestrator.search.schedule import NoEarlyStopping, scheduler_of
from orchestrator.search.steering import FixedCells, Steering, front
from orchestrator.sweeps.search_spec import ScheduleSpec, SearchSpec
from orchestrator.sweeps.space import Axis
from tests.orchestrator.search.replay import SimulatedCost, simulate
from tests.orchestrator.search.worlds import (
    DEPTHS,
    EPOCHS,
    RATES,
    SIX_LAYERS,
    StopLow,
    grid_of,
    nothing_known,
    resolver,
    table,
)
from trials.state import State

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


def test_asha_finds_the_best_cell_with_fewer_epochs_and_promoted_cells_go_on_with_all_their_seeds(
    tmp_path: Path,
) -> None:
    source, spent = scheduled(tmp_path, ScheduleSpec(kind="asha"), (0, 1, 2))
    assert best(source) == (2, 1e-3)
    assert spent.epochs <= 0.4 * GRID * 3
    lengths = [{len(seen.evaluations) for seen in cell.progress.values()} for cell in source.cells]
    assert {*map(frozenset, lengths)} == {frozenset([n]) for n in (1, 3, EPOCHS)}
    # Rungs between two evaluations are those of the next one.
    fine, spent = scheduled(tmp_path, ScheduleSpec(kind="asha", first=0.25))
    assert {len(seen.evaluations) for cell in fine.cells for seen in cell.progress.values()} >= {1, EPOCHS}
    assert best(fine) == (2, 1e-3)
    assert spent.epochs < GRID


def test_a_trial_that_a_scheduler_stops_is_not_gone_on_with_and_its_cell_is_not_ranked(tmp_path: Path) -> None:
    source = Steering(FixedCells(grid_of()), StopLow(), ScheduleSpec(), nothing_known(tmp_path))
    spent = simulate(source, table())
    stopped = [cell for cell in source.cells if set(cell.over.values()) == {State.PRUNED}]
    assert 5 < len(stopped) < len(source.cells)
    assert {len(seen.evaluations) for cell in stopped for seen in cell.progress.values()} == {3}
    assert spent.epochs == GRID - (EPOCHS - 3) * len(stopped)
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
