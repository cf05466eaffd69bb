"""Follow a sweep through its store, wherever its driver runs and whoever started it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from orchestrator.claims import running_drivers
from orchestrator.config.quantities import counted, points
from orchestrator.execution.events import last_line
from orchestrator.store import ResultStore
from orchestrator.store.follower import Follower
from orchestrator.store.plans import SweepPlan
from orchestrator.store.schema import State
from orchestrator.store.specs import stored_spec
from trials.errors import NothingMatchedError

_POLL_S = 2.0
_COLUMNS = ("trial_id", "attempt", "state", "best_score", "error")


def follow_store(store: ResultStore, sweep: str | None, write: Callable[[str], None]) -> None:
    """Write one line for each trial that has ended or ends, until no driver runs the sweep.

    Raises:
        NothingMatchedError: The store has no such sweep.
        StoreError: The storage does not answer.
    """
    plan = _plan(store, sweep)
    labels = {trial_id: stored_spec(spec, trial_id).label for trial_id, spec in plan.trials}
    follower, ended = Follower(store.storage, "trials", _COLUMNS), dict[str, str]()
    while True:
        is_running = bool(running_drivers(store.storage, plan.name))
        for part in follower.poll().rows:
            for row in part.to_pylist():
                if row["trial_id"] in labels and ended.get(row["trial_id"]) != (result := _result(row)):
                    ended[row["trial_id"]] = result
                    write(f"{len(ended)}/{len(labels)} {row['state']:<9} {labels[row['trial_id']]}{result}")
        if not is_running:
            write(f"sweep {plan.name}: not running; {len(ended)} of {counted(len(labels), 'trial')} ended.")
            return
        time.sleep(_POLL_S)


def _plan(store: ResultStore, sweep: str | None) -> SweepPlan:
    plans = [plan for plan in store.sweeps() if sweep in (None, plan.name)]
    if not plans:
        names = ", ".join(plan.name for plan in store.sweeps()) or "none"
        raise NothingMatchedError(f"{store.address} has no sweep{f' {sweep}' if sweep else ''}. Its sweeps: {names}.")
    return max(plans, key=lambda plan: plan.time)


def _result(row: dict[str, Any]) -> str:
    score = "" if row["best_score"] is None else f"  score {points(row['best_score'])}"
    error = "" if row["state"] == State.COMPLETED else f"  {last_line(str(row['error'] or ''))}"
    return score + error
