"""The source of trials of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import ValidationError

from orchestrator.analysis.cells import by_cell
from orchestrator.execution.trial_source import Listed, Source
from orchestrator.search.race import Race
from orchestrator.search.schedule import scheduler_of
from orchestrator.search.steering import FixedCells, Steering, Suggester
from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore
from orchestrator.store.suggested import Suggested
from orchestrator.sweeps.plan import Plan, as_neighbours
from orchestrator.sweeps.space import LayersError, Point
from orchestrator.sweeps.sweep import layers_of, replicates
from trials.draft import DraftError
from trials.spec import TrialSpec

Record = Callable[[Suggested, Sequence[TrialSpec]], None]


def is_shared(plan: Plan) -> bool:
    """Whether any number of drivers may run the sweep at once.

    A schedule and an adaptive search depend on the order in which results come, which one driver at a time sees.
    """
    sweep = plan.sweep
    return sweep.goal is not None or sweep.racing is not None or _is_list(plan)


def _is_list(plan: Plan) -> bool:
    """Whether the order of the trials does not depend on results."""
    return plan.runs_all and not plan.sweep.search.is_adaptive


def source_of(
    plan: Plan, store: ResultStore, *, before_write: Callable[[], None] = lambda: None, start: float = 0.0
) -> Source:
    """The source of trials for a launch of a plan; trials that the store has are not run again.

    Args:
        store: The store, where an adaptive search records its suggestions.
        before_write: Raises if other drivers counted this one as ended.
        start: Of a list, the share of the trials that come last instead of first, from 0 to 1.
    """
    sweep = plan.sweep

    def record(suggested: Suggested, specs: Sequence[TrialSpec]) -> None:
        before_write()
        store.add_suggestion(plan.sweep_plan(specs), suggested.number, suggested.parameters)

    if sweep.goal is not None:
        from orchestrator.search.depth_search import Depths, DepthSearch  # importing scipy takes half a second

        return DepthSearch(sweep.goal.choose_depth, Depths.of(plan.trials), StoredTrials(store))
    if sweep.racing is not None:
        return Race(list(by_cell(plan.trials).values()), sweep.racing, StoredTrials(store))
    if _is_list(plan):
        return Listed(plan.to_run, start=start)
    if sweep.search.is_adaptive:
        suggester = adaptive_cells(plan, store.suggestions(sweep.name), record)
    else:
        suggester = FixedCells(as_neighbours(plan.trials))
    scheduler = scheduler_of(sweep.schedule)
    return Steering(suggester, scheduler, sweep.schedule, StoredTrials(store), sweep.search.objectives)


def adaptive_cells(plan: Plan, before: Sequence[Suggested], record: Record) -> Suggester:
    """The cells of an adaptive search."""
    from orchestrator.search.suggest import AdaptiveCells  # importing Optuna takes a second

    def resolve(point: Point) -> Sequence[TrialSpec] | None:
        try:
            return replicates(plan.sweep, point, plan.lookup)
        except (
            ValidationError,
            DraftError,
            LayersError,
        ):  # an invalid point that the samples of the plan did not include
            return None

    return AdaptiveCells(
        plan.sweep.search,
        plan.sweep.space,
        resolve,
        layers_of(plan.sweep, plan.lookup),
        before=before,
        record=record,
    )
