"""Samplers of Optuna, which suggest cells by results."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from orchestrator.execution.trial_source import Source
from orchestrator.search.kinds.kind import KINDS, Kind, PlanInStore
from orchestrator.search.kinds.steered import steered
from orchestrator.sweeps.expansion import layers_of, replicates
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.space import LayersError, Point
from trials.draft import DraftError
from trials.spec import TrialSpec


def _source(asked: PlanInStore) -> Source:
    from orchestrator.search.optuna_search import AdaptiveCells  # importing Optuna takes a second

    plan = asked.plan

    def resolve(point: Point) -> Sequence[TrialSpec] | None:
        try:
            return replicates(plan.sweep, point, plan.lookup)
        except (ValidationError, DraftError, LayersError):  # not among the samples of the plan
            return None

    layers = layers_of(plan.sweep, plan.lookup)
    return steered(asked, AdaptiveCells(plan.sweep.search, plan.sweep.space, resolve, layers))


def _is_for(plan: Plan) -> bool:
    return not plan.sweep.chooses_depth and plan.sweep.search.is_adaptive


KINDS.register("sampled")(Kind(_is_for, _source, is_recorded=True))
