"""Sources of trials, which decide which trials of a plan run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import ValidationError

from orchestrator.execution.trial_queue import Listed, Source
from orchestrator.search.steering import FixedCells, Steering
from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore
from orchestrator.store.plans import Suggestion
from orchestrator.sweeps.expansion import layers_of, replicates
from orchestrator.sweeps.plan import Plan, group_by_model
from orchestrator.sweeps.space import Point
from trials.draft import DraftError
from trials.spec import TrialSpec


def source_of(
    plan: Plan,
    store: ResultStore,
    *,
    check: Callable[[], None] = lambda: None,
    time_left: Callable[[], float] | None = None,
    start: float = 0.0,
) -> Source:
    """The source of trials for a launch of a plan; trials that the store has are not run again.

    Args:
        plan: What is asked.
        store: Has the trials, and the plan to which suggestions are added.
        check: Raises if other drivers counted this one as ended; called before a suggestion is stored.
        time_left: Seconds until a limit stops the launch; None without one.
        start: Of a list, the share of the trials that come last instead of first, from 0 to 1.
    """
    sweep = plan.sweep
    if not plan.is_search:
        return Listed(plan.to_run, start=start)
    stored = StoredTrials(store)
    if sweep.goal is not None and sweep.chooses_depth:
        from orchestrator.search.depth_search import Depths, DepthSearch  # importing scipy takes half a second

        return DepthSearch(sweep.goal, Depths.from_trials(plan.trials), stored, time_left)
    if not sweep.search.is_adaptive:
        return Steering(FixedCells(group_by_model(plan.trials)), sweep.schedule, stored, sweep.search.objective)

    from orchestrator.search.optuna_search import AdaptiveCells  # importing Optuna takes a second

    def resolve(point: Point) -> Sequence[TrialSpec] | None:
        try:
            return replicates(sweep, point, plan.lookup)
        except (ValidationError, DraftError):  # not among the samples of the plan
            return None

    def record(suggestion: Suggestion, specs: Sequence[TrialSpec]) -> None:
        check()
        store.extend_plan(plan.sweep_plan(specs, (suggestion,)))

    layers = layers_of(sweep, plan.lookup)
    cells = AdaptiveCells(sweep.search, sweep.space, resolve, layers, earlier=plan.suggestions, record=record)
    return Steering(cells, sweep.schedule, stored, sweep.search.objective)
