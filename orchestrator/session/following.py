"""Follow a sweep through its store, wherever its driver runs and whoever started it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from orchestrator.claims import running_drivers
from orchestrator.config.quantities import counted, points
from orchestrator.execution.events import last_line
from orchestrator.store import ResultStore
from orchestrator.store.parts import Follower
from orchestrator.store.stored_specs import stored_spec
from orchestrator.store.sweep_plans import SweepPlan
from trials.metrics.metric import metric_label
from trials.spec import TrialSpec
from trials.state import State
from trials.tasks.task import score_name

_POLL_S = 2.0
_COLUMNS = ("trial_id", "attempt", "state", "best_score", "error")


def follow_store(store: ResultStore, plan: SweepPlan, write: Callable[[str], None]) -> None:
    """Write one line for each trial that has ended or ends, until no driver runs the sweep. Raises StoreError."""
    specs = {trial_id: stored_spec(spec, trial_id) for trial_id, spec in plan.trials}
    follower, ended = Follower(store.storage, "trials", _COLUMNS), dict[str, str]()
    while True:
        is_running = bool(running_drivers(store.storage, plan.name))
        for part in follower.poll().rows:
            for row in part.to_pylist():
                spec = specs.get(row["trial_id"])
                if spec is not None and ended.get(spec.trial_id) != (result := _result(row, spec)):
                    ended[spec.trial_id] = result
                    write(f"{len(ended)}/{len(specs)} {row['state']:<9} {spec.label}{result}")
        if not is_running:
            write(f"sweep {plan.name}: not running; {len(ended)} of {counted(len(specs), 'trial')} ended.")
            return
        time.sleep(_POLL_S)


def _result(row: dict[str, Any], spec: TrialSpec) -> str:
    metric = metric_label(score_name(spec.task, spec.score))
    score = "" if row["best_score"] is None else f"  {metric} {points(row['best_score'])}"
    error = "" if row["state"] == State.COMPLETED else f"  {last_line(str(row['error'] or ''))}"
    return score + error
