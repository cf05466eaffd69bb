"""`goal: choose_depth`: the answer decides which depths and seeds run."""

from __future__ import annotations

from orchestrator.execution.trial_source import Source
from orchestrator.search.kinds.kind import KINDS, Kind, PlanInStore
from orchestrator.search.trial_results import StoredTrials


def _source(asked: PlanInStore) -> Source:
    from orchestrator.search.depth_search import Depths, DepthSearch  # importing scipy takes half a second

    plan = asked.plan
    assert plan.sweep.goal is not None
    return DepthSearch(plan.sweep.goal, Depths.of(plan.trials), StoredTrials(asked.store), asked.time_left)


KINDS.register("choose_depth")(Kind(lambda plan: plan.sweep.chooses_depth, _source, is_recorded=False))
