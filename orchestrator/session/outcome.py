"""The outcome of a launch, derived from how its trials ended."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from orchestrator.claims import CLAIMS, DRIVERS, SEARCHES
from orchestrator.config.quantities import amount
from orchestrator.execution.stop_request import FOLDER, StopRequest
from orchestrator.execution.trial_queue import End
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import ResultStore
from orchestrator.store.plans import SweepPlan
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
        failed: Those whose newest attempt ended neither completed nor pruned.
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


def outcome_of(plan: Plan, store: str, wall_s: float, ends: Sequence[End] = ()) -> Outcome:
    """Count how trials ended; a dry run has no ends."""
    states = Counter(end.state for end in ends)
    completed, pruned = states.pop(State.COMPLETED, 0), states.pop(State.PRUNED, 0)
    return Outcome(
        sweep=plan.sweep.name,
        store=store,
        planned=plan.n_trials,
        skipped=plan.n_skipped,
        completed=completed,
        pruned=pruned,
        failed=states.total(),
        ran=sum(end.is_here for end in ends),
        wall_s=round(wall_s, 3),
    )


@dataclass(frozen=True)
class Ended:
    """A sweep's end in a launch.

    Attributes:
        plan: The plan, brought up to date at its start.
        outcome: Its trials, counted.
        stop: Whether and why it stopped early.
        found: What a search or a goal found, in lines; empty for a grid.
        ends: How the newest attempt at each trial ended that ended meanwhile, here or elsewhere.
    """

    plan: Plan
    outcome: Outcome
    stop: StopRequest
    found: tuple[str, ...]
    ends: Sequence[End]

    @property
    def failures(self) -> list[End]:
        """The ends that `outcome` counts as failed."""
        return [end for end in self.ends if end.state not in (State.COMPLETED, State.PRUNED)]

    @property
    def n_left(self) -> int:
        """Trials that did not end."""
        return len(self.plan.workload) - len(self.ends)

    @property
    def exit_code(self) -> int:
        """0 complete, 1 some trials failed; of what stopped it, 130 interrupted, 143 terminated or at a limit."""
        return self.stop.exit_code if self.stop.asked else int(self.outcome.failed > 0)

    @property
    def stopped(self) -> str | None:
        """Why it stopped early, and what is left; None if it did not. The same call goes on from there."""
        trials_left = f"{amount(self.n_left, 'trial')} left"
        if self.stop.reason is not None:
            return f"stopped with {trials_left}: {self.stop.reason}"
        why = self.stop.bound or ("interrupted" if self.stop.asked else None)
        return why and f"{why}, {trials_left}; finished trials are in the store."


def earlier_note(results: ResultStore, plan: SweepPlan, ended: Collection[str]) -> str:
    """How many ended trials an earlier version of a sweep declared, which are not shown; empty if there are none."""
    n = sum(trial_id in ended for trial_id, _ in results.earlier_trials(plan).trials)
    shown = "is" if n == 1 else "are"
    return f"{amount(n, 'trial')} of an earlier version of `{plan.name}` {shown} not shown (status --all)" if n else ""


def trials_of(plan: Plan, results: ResultStore) -> list[TrialSpec]:
    """All trials of the sweep, including those that its search has suggested so far."""
    if not plan.sweep.search.is_adaptive:
        return list(plan.trials)
    stored = next((sweep for sweep in results.sweeps() if sweep.name == plan.sweep.name), None)
    return [*stored.specs] if stored else []


_MADE_AGAIN = (DRIVERS, CLAIMS, SEARCHES, CHECKPOINTS, FOLDER)  # folders that are worth nothing without the rows


def lost_store(results: ResultStore, n_committed: int) -> StoreError:
    """The message about a store that was deleted, or moved, while its driver ran."""
    if isinstance(results.storage, FolderStorage):  # what drivers made again is in the way of whoever puts it back
        for name in _MADE_AGAIN:
            shutil.rmtree(results.storage.folder / name, ignore_errors=True)
        with contextlib.suppress(OSError):
            results.storage.folder.rmdir()
    lost = f"the {amount(n_committed, 'trial')} committed there {'is' if n_committed == 1 else 'are'} lost"
    return StoreError(
        f"{results.address}: the store is gone; it was deleted or moved while this driver ran. Unless it is put back, "
        f"{lost if n_committed else 'all that was written there is lost'}. Put it back and run the same command to "
        "resume; without it the same command starts anew."
    )
