"""What came of a launch, told from the store."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from dataclasses import dataclass

from orchestrator.command import say, stderr
from orchestrator.events import last_line
from orchestrator.plan import Plan
from orchestrator.stop import StopRequest
from orchestrator.store import ResultStore
from orchestrator.store.schema import State
from orchestrator.terminal import failure_table


@dataclass(frozen=True)
class Outcome:
    """What `--json` prints, in trials; `failed` are those that ended neither completed nor pruned."""

    sweep: str
    store: str
    planned: int
    skipped: int
    completed: int
    pruned: int
    failed: int
    wall_s: float


def outcome_of(plan: Plan, results: ResultStore, wall_s: float, *, dry_run: bool) -> Outcome:
    """Counted in the store, which is the only truth: rows of this launch's attempts."""
    ended = [] if dry_run else results.trials().select(["trial_id", "attempt", "state"]).to_pylist()
    states = Counter(row["state"] for row in ended if row["attempt"] >= plan.attempts.get(row["trial_id"], sys.maxsize))
    completed, pruned = states.pop(State.COMPLETED, 0), states.pop(State.PRUNED, 0)
    return Outcome(
        sweep=plan.sweep.name,
        store=str(results.address),
        planned=len(plan.trials),
        skipped=plan.n_skipped,
        completed=completed,
        pruned=pruned,
        failed=states.total(),
        wall_s=round(wall_s, 3),
    )


def say_end(plan: Plan, results: ResultStore, outcome: Outcome, stop: StopRequest) -> None:
    """Tell the person what failed, why the launch ended before its end if it did, and how to go on."""
    if outcome.failed:
        say(f"{outcome.failed} trials failed; the same command tries them again:")
        stderr.print(failure_table(_failures(plan, results)))
    command = shlex.join(["python", "-m", "orchestrator.launch", *sys.argv[1:]])
    left = len(plan.to_run) - outcome.completed - outcome.pruned - outcome.failed
    if stop.reason is not None:
        say(f"given up with {left} trials to go: {stop.reason}")
    elif stop.bound is not None:
        say(f"{stop.bound}, with {left} trials to go; what is finished is in the store. Go on with:\n  {command}")
    elif stop.asked:
        say(f"interrupted with {left} trials to go; what is finished is in the store. Go on with:\n  {command}")
    say(f"results {outcome.store}; look again with: python -m orchestrator.status --store {shlex.quote(outcome.store)}")


def _failures(plan: Plan, results: ResultStore) -> list[tuple[str, str, str]]:
    """(state, what was said last, label) of every trial of this launch that failed."""
    specs = {spec.trial_id: spec for spec in plan.to_run}
    rows = results.trials().select(["trial_id", "attempt", "state", "error"]).to_pylist()
    return [
        (row["state"], last_line(row["error"]), specs[row["trial_id"]].label)
        for row in rows
        if row["attempt"] >= plan.attempts.get(row["trial_id"], sys.maxsize)
        and row["state"] not in (State.COMPLETED, State.PRUNED)
    ]
