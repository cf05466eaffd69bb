"""Schedules, which stop or pause trials early, and how a source of cells and a schedule steer trials together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.execution.trial_source import Source
from orchestrator.search.kinds.kind import KINDS, Kind, PlanInStore
from orchestrator.search.schedule import scheduler_of
from orchestrator.search.steering import FixedCells, Steering
from orchestrator.search.trial_results import StoredTrials
from orchestrator.sweeps.plan import Plan, as_neighbours

if TYPE_CHECKING:
    from orchestrator.search.optuna_search import AdaptiveCells


def steered(asked: PlanInStore, cells: AdaptiveCells | FixedCells) -> Source:
    """The trials of `cells`, under the schedule of the sweep."""
    sweep = asked.plan.sweep
    return Steering(
        cells,
        scheduler_of(sweep.schedule),
        sweep.schedule,
        StoredTrials(asked.store),
        sweep.search.objectives,
        asked.store.decision_log(sweep.name, before_write=asked.before_write),
        asked.plan.sweep_plan,
    )


def _is_for(plan: Plan) -> bool:
    sweep = plan.sweep
    return not sweep.chooses_depth and not sweep.search.is_adaptive and sweep.schedule.kind != "none"


def _source(asked: PlanInStore) -> Source:
    return steered(asked, FixedCells(as_neighbours(asked.plan.trials)))


KINDS.register("scheduled")(Kind(_is_for, _source, is_recorded=True))
