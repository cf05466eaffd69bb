"""The progress of a running sweep: a listener that counts, and how a launch ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from orchestrator.execution.events import Listener
from orchestrator.store.schema import State
from trials.cache.set_up import SetUpWork
from trials.record import EpochRecord
from trials.spec import TrialSpec


@dataclass(frozen=True)
class Ending:
    """How a launch ended.

    Attributes:
        outcome: `done`: every trial completed or was pruned. `interrupted`: a person pressed Ctrl-C. Else `failed`.
        reason: Why, unless trials failed.
        states: The number of ended trials, by final state.
        left: The number of trials that have not ended.
        wall_s: Seconds since the launch started to run trials.
    """

    outcome: Literal["done", "failed", "interrupted"]
    reason: str | None
    states: dict[State, int]
    left: int
    wall_s: float


class Tally(Listener):
    """A `Listener` that counts. Other threads read it, so each attribute is updated atomically.

    Attributes:
        states: The number of ended trials, by final state.
        began: The clock when this was created.
        quiet_since: The clock at the last event except ticks.
    """

    def __init__(self, n_trials: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._n_trials, self.clock = n_trials, clock
        self.states: Counter[State] = Counter()
        self._running: set[str] = set()
        self.began = self.quiet_since = clock()

    @property
    def n_running(self) -> int:
        """The number of running trials."""
        return len(self._running)

    @property
    def left(self) -> int:
        """The number of trials that have not ended."""
        return self._n_trials - self.states.total()

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """Count the trial as running."""
        self._running.add(spec.trial_id)
        self.quiet_since = self.clock()

    def preparing(self, spec: TrialSpec, work: SetUpWork) -> None:
        """Note the progress."""
        self.quiet_since = self.clock()

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Note the progress."""
        self.quiet_since = self.clock()

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Count the trial as waiting."""
        self._running.discard(spec.trial_id)
        self.quiet_since = self.clock()

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Count the trial as ended."""
        self._running.discard(spec.trial_id)
        self.states[state] += 1
        self.quiet_since = self.clock()

    def settled(self, state: State) -> None:
        """Count a trial that another driver has ended."""
        self.states[state] += 1
        self.quiet_since = self.clock()

    def ending(self, *, reason: str | None, interrupted: bool) -> Ending:
        """The result of the launch, if it ends now."""
        fine = self.states[State.COMPLETED] + self.states[State.PRUNED] == self._n_trials and reason is None
        outcome: Literal["done", "failed", "interrupted"] = "done" if fine else "failed"
        if interrupted and not fine:
            outcome = "interrupted"
        return Ending(outcome, reason, dict(self.states), self.left, self.clock() - self.began)
