"""The source of trials of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

from orchestrator.execution.trial_source import Listed, Source
from orchestrator.search.schedule import scheduler_of
from orchestrator.search.steering import FixedCells, Steering
from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore
from orchestrator.sweeps.expansion import layers_of, replicates
from orchestrator.sweeps.plan import Plan, as_neighbours
from orchestrator.sweeps.space import LayersError, Point
from trials.draft import DraftError
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from orchestrator.search.optuna_search import AdaptiveCells


def source_of(
    plan: Plan,
    store: ResultStore,
    *,
    before_write: Callable[[], None] = lambda: None,
    start: float = 0.0,
    time_left: Callable[[], float] | None = None,
) -> Source:
    """The source of trials for a launch of a plan; trials that the store has are not run again.

    Args:
        store: The store, where a sampler or a schedule records its decisions.
        before_write: Raises if other drivers counted this one as ended.
        start: Of a list, the share of the trials that come last instead of first, from 0 to 1.
        time_left: Seconds until a limit stops the launch; None without one.
    """
    sweep = plan.sweep
    if sweep.goal is not None and sweep.goal.choose_depth is not None:
        from orchestrator.search.depth_search import Depths, DepthSearch  # importing scipy takes half a second

        return DepthSearch(sweep.goal, Depths.of(plan.trials), StoredTrials(store), time_left)
    if not decides(plan):
        return Listed(plan.to_run, start=start)
    suggester = adaptive_cells(plan) if sweep.search.is_adaptive else FixedCells(as_neighbours(plan.trials))
    return Steering(
        suggester,
        scheduler_of(sweep.schedule),
        sweep.schedule,
        StoredTrials(store),
        sweep.search.objectives,
        store.decision_log(sweep.name, before_write=before_write),
        plan.sweep_plan,
    )


def decides(plan: Plan) -> bool:
    """Whether a sampler or a schedule makes decisions that are recorded."""
    sweep = plan.sweep
    return sweep.search.is_adaptive or sweep.schedule.kind != "none"


def adaptive_cells(plan: Plan) -> AdaptiveCells:
    """The cells of an adaptive search."""
    from orchestrator.search.optuna_search import AdaptiveCells  # importing Optuna takes a second

    def resolve(point: Point) -> Sequence[TrialSpec] | None:
        try:
            return replicates(plan.sweep, point, plan.lookup)
        except (
            ValidationError,
            DraftError,
            LayersError,
        ):  # an invalid point that the samples of the plan did not include
            return None

    return AdaptiveCells(plan.sweep.search, plan.sweep.space, resolve, layers_of(plan.sweep, plan.lookup))
