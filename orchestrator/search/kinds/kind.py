"""The contract of what decides which trials of a plan run, and the choice among its kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.execution.trial_source import Listed, Source
from orchestrator.store import ResultStore
from orchestrator.sweeps.plan import Plan
from trials.errors import ConfigError
from trials.plugins.registry import Registry


@dataclass(frozen=True)
class PlanInStore:
    """A plan, and what a launch of it knows.

    Attributes:
        store: Has the trials that are not run again, and the decisions that are recorded.
        before_write: Raises if other drivers counted this one as ended.
        time_left: Seconds until a limit stops the launch; None without one.
    """

    plan: Plan
    store: ResultStore
    before_write: Callable[[], None] = lambda: None
    time_left: Callable[[], float] | None = None


@dataclass(frozen=True)
class Kind:
    """One way to decide.

    Attributes:
        is_for: Whether a plan asks for it.
        source: Makes the source of its trials.
        is_recorded: Whether its decisions are in the store, for all drivers.
    """

    is_for: Callable[[Plan], bool]
    source: Callable[[PlanInStore], Source]
    is_recorded: bool


KINDS: Registry[Kind] = Registry("search")


def _kind_of(plan: Plan) -> Kind | None:
    return next((kind for kind in KINDS.values() if kind.is_for(plan)), None)


def source_of(asked: PlanInStore, *, start: float = 0.0) -> Source:
    """The source of trials for a launch of a plan; trials that the store has are not run again.

    Args:
        start: Of a list, the share of the trials that come last instead of first, from 0 to 1.

    Raises:
        ConfigError: The plan asks for a kind that is not there.
    """
    plan = asked.plan
    if (kind := _kind_of(plan)) is not None:
        return kind.source(asked)
    if plan.runs_all and not plan.sweep.search.is_adaptive:
        return Listed(plan.to_run, start=start)
    raise ConfigError(f"sweep {plan.sweep.name}: nothing here decides by its `search`, `schedule` or `goal`.")


def decides(plan: Plan) -> bool:
    """Whether decisions on its trials are recorded."""
    kind = _kind_of(plan)
    return kind is not None and kind.is_recorded
