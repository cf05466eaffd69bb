"""Searches and schedules together, on a table whose best cell is known, also cut and resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import End
from orchestrator.search.optuna_search import AdaptiveCells
from orchestrator.search.steering import Asha, FixedCells, Steering, best_cell
from orchestrator.search.trial_results import Evaluation, StoredTrials
from orchestrator.store import ResultStore
from orchestrator.store.plans import Suggestion, SweepPlan
from orchestrator.sweeps.search_spec import ScheduleSpec, SearchSpec
from orchestrator.sweeps.space import Axis
from tests.builders import make_spec
from tests.orchestrator.search.replay import RecordedTrials, SimulatedCost, simulate
from tests.orchestrator.search.worlds import (
    DEPTHS,
    EPOCHS,
    RATES,
    SIX_LAYERS,
    grid_of,
    nothing_known,
    resolver,
    table,
)
from trials.record import State
from trials.spec import TrialSpec

SPACE = {"freeze.depth": Axis(choice=list(DEPTHS)), "optim.lr": Axis(choice=list(RATES))}
GRID = len(DEPTHS) * len(RATES) * EPOCHS  # epochs, with one seed
NONE, ASHA = ScheduleSpec(), ScheduleSpec(kind="asha")
SEEDS = (0, 1)


def scheduled(folder: Path, schedule: ScheduleSpec, seeds: tuple[int, ...] = (0,)) -> tuple[Steering, SimulatedCost]:
    source = Steering(FixedCells(grid_of(seeds)), schedule, nothing_known(folder))
    return source, simulate(source, table(seeds), slots=4)


def best(source: Steering) -> tuple[int, float]:
    found = best_cell(source.cells)
    assert found is not None
    return found.specs[0].freeze.depth, found.specs[0].optim.lr


def test_asha_finds_the_best_cell_with_fewer_epochs_and_stops_at_rungs(tmp_path: Path) -> None:
    source, spent = scheduled(tmp_path, ASHA, (0, 1, 2))
    assert best(source) == (2, 1e-3)
    assert spent.epochs <= 0.5 * GRID * 3
    assert {len(seen.evaluations) for cell in source.cells for seen in cell.progress.values()} == {1, 3, EPOCHS}
    # Rungs between two evaluations are those of the next one.
    fine, spent = scheduled(tmp_path, ScheduleSpec(kind="asha", first=0.25))
    assert {len(seen.evaluations) for cell in fine.cells for seen in cell.progress.values()} >= {1, EPOCHS}
    assert spent.epochs < GRID


@given(scores=st.lists(st.floats(0, 1), min_size=1, max_size=40), factor=st.integers(2, 5))
def test_at_a_rung_a_trial_goes_on_if_its_cell_is_among_the_best_share_of_those_that_came_so_far(
    scores: list[float], factor: int
) -> None:
    asha = Asha(ScheduleSpec(kind="asha", factor=factor))
    for n, score in enumerate(scores, 1):
        spec, better = make_spec(optim={"lr": n * 1e-5}), sum(other > score for other in scores[:n])
        assert asha.continues(spec, [Evaluation(1.0, 10, score)]) == (better < max(1, n // factor))
    assert asha.continues(spec, [Evaluation(1.0, 10, 0.0), Evaluation(1.5, 15, 0.0)])  # at no rung
    assert asha.continues(make_spec(optim={"lr": 1e-5}, seed=9), [Evaluation(1.0, 10, 99.0)])  # the mean of two seeds
    assert asha.continues(make_spec(task="ner"), [Evaluation(1.0, 10, -1.0)])  # of another group


def suggesting(store: ResultStore, schedule: ScheduleSpec, seed: int = 0) -> Steering:
    """A search as a launch makes it: what was suggested is in the plan of the store."""

    def record(suggestion: Suggestion, specs: Sequence[TrialSpec]) -> None:
        trials = tuple((spec.trial_id, spec.model_dump(mode="json")) for spec in specs)
        store.extend_plan(SweepPlan("s", 1.0, "s.yaml", trials, (suggestion,)))

    store.create()
    search = SearchSpec(kind="tpe", cells=16, startup=5, seed=seed)
    earlier = store.suggestions("s")
    cells = AdaptiveCells(search, SPACE, resolver(SEEDS), SIX_LAYERS, earlier=earlier, record=record)
    return Steering(cells, schedule, StoredTrials(store))


def run(source: Steering, recorded: RecordedTrials, store: ResultStore, most: int | None = None) -> None:
    """Run trials one after the other with their rows in a store, so many at most; then the driver is gone."""
    recorder, n = Recorder(store), 0
    while n != most and (spec := source.next()) is not None:
        n, state = n + 1, State.COMPLETED
        recorder.started(spec, 1)
        for record in recorded[spec.trial_id]:
            recorder.evaluated(spec, record)
            if not source.evaluated(spec, record):
                state = State.PRUNED
                break
        source.ended(End(spec, state))
        recorder.ended(End(spec, state))
    recorder.close()


@pytest.mark.parametrize("schedule", [NONE, ASHA], ids=["tpe", "tpe asha"])
def test_a_search_that_was_cut_goes_on_from_its_store_as_if_it_had_not_been(
    tmp_path: Path, schedule: ScheduleSpec
) -> None:
    whole, cut, recorded = ResultStore(tmp_path / "whole"), ResultStore(tmp_path / "cut"), table(SEEDS)
    uncut = suggesting(whole, schedule)
    run(uncut, recorded, whole)
    for most in (1, 4, 9):
        run(suggesting(cut, schedule), recorded, cut, most)
    resumed = suggesting(cut, schedule)
    run(resumed, recorded, cut)
    assert (resumed.answer_lines(), cut.suggestions("s")) == (uncut.answer_lines(), whole.suggestions("s"))
    assert [cell.ends for cell in resumed.cells] == [cell.ends for cell in uncut.cells]
    assert len(cut.storage.subfolder("sweeps").subfolder("s").files()) == 1
    later = suggesting(cut, schedule)
    assert (later.next(), later.is_over, later.answer_lines()) == (None, True, uncut.answer_lines())
    if schedule is ASHA:  # what was stopped runs to its end where no schedule stops it
        spec = suggesting(cut, NONE).next()
        assert spec is not None
        states = {row["trial_id"]: row["state"] for row in cut.trials(["state"]).to_pylist()}
        assert states[spec.trial_id] == State.PRUNED


def test_a_trial_that_failed_elsewhere_has_ended_and_is_not_handed_out_again(tmp_path: Path) -> None:
    source = Steering(FixedCells(grid_of()), NONE, nothing_known(tmp_path))
    spec = source.next()
    assert spec is not None
    source.ended(End(spec, State.FAILED, is_here=False))
    assert spec.trial_id not in {following.trial_id for following in iter(source.next, None)}
    assert source.cells[0].ends[spec.trial_id] is State.FAILED


def test_the_best_setting_has_its_score_on_the_split_that_selected_nothing(tmp_path: Path) -> None:
    table_of = {
        trial_id: [*records[:-1], replace(records[-1], test_score=records[-1].score - 0.1)]
        for trial_id, records in table((0, 1, 2)).items()
    }
    source = Steering(FixedCells(grid_of((0, 1, 2))), NONE, nothing_known(tmp_path))
    simulate(source, table_of)
    dev, test, *_ = source.answer_lines()
    assert "on dev, which selected it (3 seeds)" in dev
    mean = float(dev.partition("score ")[2].split()[0])
    assert f"score {mean - 10:.2f} (" in test
    assert test.endswith("95 % interval over seeds) on test, which took no part in that")
