"""Follow a sweep by its store alone: wherever its driver runs, and whoever started it."""

from __future__ import annotations

import time
from collections.abc import Callable

from orchestrator.execution.events import last_line
from orchestrator.lease.running_driver import running_driver
from orchestrator.store import ResultStore
from orchestrator.store.follower import Follower
from orchestrator.store.plans import SweepPlan
from orchestrator.store.schema import State
from orchestrator.store.specs import stored_spec
from trials.errors import NothingMatchedError

_LOOK_S = 2.0
_COLUMNS = ("trial_id", "attempt", "state", "best_score", "error")


def follow_store(store: ResultStore, sweep: str | None, write: Callable[[str], None]) -> None:
    """Write a line for each trial of a sweep that ends, those that have ended at first, until no driver runs it.

    Raises:
        NothingMatchedError: the store has no such sweep.
        StoreError: the storage does not answer.
    """
    plan = _plan(store, sweep)
    labels = {trial_id: stored_spec(spec, trial_id).label for trial_id, spec in plan.trials}
    follower, told = Follower(store.storage, "trials", _COLUMNS), dict[str, str]()
    while True:
        driver = running_driver(store.storage, plan.name)
        for part in follower.poll().rows:
            for row in part.to_pylist():
                if row["trial_id"] in labels and told.get(row["trial_id"]) != (said := _said(row)):
                    told[row["trial_id"]] = said
                    write(f"{len(told)}/{len(labels)} {row['state']:<9} {labels[row['trial_id']]}{said}")
        if driver is None:
            write(f"sweep {plan.name}: nobody runs it; {len(told)} of {len(labels)} trials have ended.")
            return
        time.sleep(_LOOK_S)


def _plan(store: ResultStore, sweep: str | None) -> SweepPlan:
    plans = [plan for plan in store.sweeps() if sweep in (None, plan.name)]
    if not plans:
        names = ", ".join(plan.name for plan in store.sweeps()) or "none"
        raise NothingMatchedError(f"{store.address}: has no sweep {sweep or 'yet'}. It has: {names}.")
    return max(plans, key=lambda plan: plan.time)


def _said(row: dict[str, object]) -> str:
    score = "" if row["best_score"] is None else f"  score {row['best_score']:.4f}"
    error = "" if row["state"] == State.COMPLETED else f"  {last_line(str(row['error'] or ''))}"
    return score + error
