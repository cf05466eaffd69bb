"""Samplers, which suggest cells by results, and schedules, which stop or pause them early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

from orchestrator.execution.trial_source import Source
from orchestrator.search.kinds.kind import KINDS, Kind, PlanInStore
from orchestrator.search.schedule import scheduler_of
from orchestrator.search.steering import FixedCells, Steering
from orchestrator.search.trial_results import StoredTrials
from orchestrator.sweeps.expansion import layers_of, replicates
from orchestrator.sweeps.plan import Plan, as_neighbours
from orchestrator.sweeps.space import LayersError, Point
from trials.draft import DraftError
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from orchestrator.search.optuna_search import AdaptiveCells


def _is_for(plan: Plan) -> bool:
    sweep = plan.sweep
    return not sweep.chooses_depth and (sweep.search.is_adaptive or sweep.schedule.kind != "none")


def _source(asked: PlanInStore) -> Source:
    plan, sweep = asked.plan, asked.plan.sweep
    return Steering(
        _adaptive_cells(plan) if sweep.search.is_adaptive else FixedCells(as_neighbours(plan.trials)),
        scheduler_of(sweep.schedule),
        sweep.schedule,
        StoredTrials(asked.store),
        sweep.search.objectives,
        asked.store.decision_log(sweep.name, before_write=asked.before_write),
        plan.sweep_plan,
    )


def _adaptive_cells(plan: Plan) -> AdaptiveCells:
    from orchestrator.search.optuna_search import AdaptiveCells  # importing Optuna takes a second

    def resolve(point: Point) -> Sequence[TrialSpec] | None:
        try:
            return replicates(plan.sweep, point, plan.lookup)
        except (ValidationError, DraftError, LayersError):  # not among the samples of the plan
            return None

    return AdaptiveCells(plan.sweep.search, plan.sweep.space, resolve, layers_of(plan.sweep, plan.lookup))


KINDS.register("steered")(Kind(_is_for, _source, is_recorded=True))
