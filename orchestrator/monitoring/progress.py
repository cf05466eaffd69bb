"""What is known of a running sweep at a glance: a listener that counts, and how a sweep ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from orchestrator.store.schema import State
from trials.record import EpochRecord
from trials.spec import TrialSpec


@dataclass(frozen=True)
class Ending:
    """How a launch ended.

    Attributes:
        outcome: `done`: every trial completed or was pruned. `interrupted`: a person pressed Ctrl-C. Else `failed`.
        reason: Why, where it is not just trials that failed.
        states: Trials by the state they ended in; those that never ended are in none.
        left: Trials that never ended.
        wall_s: Seconds since the launch began to run them.
    """

    outcome: Literal["done", "failed", "interrupted"]
    reason: str | None
    states: dict[State, int]
    left: int
    wall_s: float


class Tally:
    """A `Listener` that counts; read from other threads too, so each attribute is replaced or set at once.

    Attributes:
        states: Trials by the state they ended in.
        began: The clock when it was made.
        quiet_since: The clock at the last thing told, a tick not counted.
    """

    def __init__(self, n_trials: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._n_trials, self.clock = n_trials, clock
        self.states: Counter[State] = Counter()
        self._running: set[str] = set()
        self.began = self.quiet_since = clock()

    @property
    def n_running(self) -> int:
        """Trials that a worker has."""
        return len(self._running)

    @property
    def left(self) -> int:
        """Trials that have not ended."""
        return self._n_trials - self.states.total()

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """It runs."""
        self._running.add(spec.trial_id)
        self.quiet_since = self.clock()

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """It gets on."""
        self.quiet_since = self.clock()

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """It waits again."""
        self._running.discard(spec.trial_id)
        self.quiet_since = self.clock()

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """It is over."""
        self._running.discard(spec.trial_id)
        self.states[state] += 1
        self.quiet_since = self.clock()

    def tick(self) -> None:
        """Nothing happened."""

    def ending(self, *, reason: str | None, interrupted: bool) -> Ending:
        """What has become of the launch, if it ends now."""
        fine = self.states[State.COMPLETED] + self.states[State.PRUNED] == self._n_trials and reason is None
        outcome: Literal["done", "failed", "interrupted"] = "done" if fine else "failed"
        if interrupted and not fine:
            outcome = "interrupted"
        return Ending(outcome, reason, dict(self.states), self.left, self.clock() - self.began)
