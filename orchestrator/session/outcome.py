"""The outcome of a launch, from its store."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from orchestrator.claims import CLAIMS, DRIVERS, SEARCHES
from orchestrator.config.quantities import counted
from orchestrator.execution.failures import last_line
from orchestrator.execution.stop_request import FOLDER, StopRequest
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import ResultStore
from orchestrator.store.plans import SweepPlan, planned_specs
from orchestrator.store.schema import CHECKPOINTS
from orchestrator.sweeps.plan import Plan
from trials.errors import StoreError
from trials.record import State
from trials.spec import TrialSpec


@dataclass(frozen=True)
class Outcome:
    """The output of `--json`, in trials.

    Attributes:
        skipped: Those that were complete before.
        failed: Those that ended neither completed nor pruned.
        ran: How many of those that ended this launch ran; other drivers of the sweep ran the rest meanwhile.
    """

    sweep: str
    store: str
    planned: int
    skipped: int
    completed: int
    pruned: int
    failed: int
    ran: int
    wall_s: float

    @property
    def elsewhere(self) -> int:
        """How many trials other drivers ran meanwhile."""
        return self.completed + self.pruned + self.failed - self.ran


def outcome_of(plan: Plan, results: ResultStore, wall_s: float, *, ran: Collection[str] | None) -> Outcome:
    """Count rows in the store that are new since the plan; `ran`: the trials of this launch, None of a dry run."""
    rows = [] if ran is None else _ended(plan, results, ["state"])
    states = Counter(row["state"] for row in rows)
    completed, pruned = states.pop(State.COMPLETED, 0), states.pop(State.PRUNED, 0)
    return Outcome(
        sweep=plan.sweep.name,
        store=str(results.address),
        planned=plan.n_trials,
        skipped=plan.n_skipped,
        completed=completed,
        pruned=pruned,
        failed=states.total(),
        ran=sum(row["trial_id"] in (ran or ()) for row in rows),
        wall_s=round(wall_s, 3),
    )


def early_end(plan: Plan, outcome: Outcome, stop: StopRequest) -> str | None:
    """Why a launch stopped early and how much is left; None if it did not."""
    left = f"{counted(len(plan.ahead) - outcome.completed - outcome.pruned - outcome.failed, 'trial')} left"
    if stop.reason is not None:
        return f"stopped with {left}: {stop.reason}"
    why = stop.bound or ("interrupted" if stop.asked else None)
    return why and f"{why}, {left}; finished trials are in the store."


def earlier_note(results: ResultStore, plan: SweepPlan, ended: Collection[str]) -> str:
    """How many ended trials an earlier version of a sweep declared, which are not shown; empty if there are none."""
    n = sum(trial_id in ended for trial_id, _ in results.earlier_trials(plan).trials)
    shown = "is" if n == 1 else "are"
    return f"{counted(n, 'trial')} of an earlier version of `{plan.name}` {shown} not shown (status --all)" if n else ""


def trials_of(plan: Plan, results: ResultStore) -> list[TrialSpec]:
    """All trials of the sweep, including those that its search has suggested so far."""
    if not plan.sweep.search.is_adaptive:
        return list(plan.trials)
    stored = next((sweep for sweep in results.sweeps() if sweep.name == plan.sweep.name), None)
    return planned_specs(stored) if stored else []


def _ended(plan: Plan, results: ResultStore, columns: list[str]) -> list[dict[str, Any]]:
    """The rows of the attempts since the plan, of any driver."""
    ids = {spec.trial_id for spec in trials_of(plan, results)}
    rows = results.trials().select(["trial_id", "attempt", *columns]).to_pylist()
    return [row for row in rows if row["trial_id"] in ids and row["attempt"] >= plan.next_attempt(row["trial_id"])]


def failures(plan: Plan, results: ResultStore) -> list[tuple[str, str, str]]:
    """(state, last line of the error, label) of each trial of this launch that failed."""
    labels = {spec.trial_id: spec.label for spec in trials_of(plan, results)}
    return [
        (row["state"], last_line(row["error"]), labels[row["trial_id"]])
        for row in _ended(plan, results, ["state", "error"])
        if row["state"] not in (State.COMPLETED, State.PRUNED)
    ]


_MADE_AGAIN = (DRIVERS, CLAIMS, SEARCHES, CHECKPOINTS, FOLDER)  # folders that are worth nothing without the rows


def lost_store(results: ResultStore, n_committed: int) -> StoreError:
    """What is true of a store that was deleted, or moved, while its driver ran."""
    if isinstance(results.storage, FolderStorage):  # what drivers made again is in the way of whoever puts it back
        for name in _MADE_AGAIN:
            shutil.rmtree(results.storage.folder / name, ignore_errors=True)
        with contextlib.suppress(OSError):
            results.storage.folder.rmdir()
    lost = f"the {counted(n_committed, 'trial')} committed there {'is' if n_committed == 1 else 'are'} lost"
    return StoreError(
        f"{results.address}: the store is gone; it was deleted or moved while this driver ran. Unless it is put back, "
        f"{lost if n_committed else 'all that was written there is lost'}. Put it back and run the same command to "
        "resume; without it the same command starts anew."
    )
