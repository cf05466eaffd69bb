"""How far a running sweep is: a listener that counts, and how a launch ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from orchestrator.execution.events import Listener
from trials.spec import TrialSpec
from trials.state import State


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
    """A `Listener` that counts.

    Attributes:
        states: The number of ended trials, by final state.
        began: The clock when this was created.
    """

    def __init__(self, n_trials: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._n_trials, self.clock = n_trials, clock
        self.states: Counter[State] = Counter()
        self.began = clock()

    @property
    def left(self) -> int:
        """The number of trials that have not ended."""
        return self._n_trials - self.states.total()

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Count the trial as ended."""
        self.states[state] += 1

    def settled(self, spec: TrialSpec, state: State) -> None:
        """Count a trial that another driver has ended."""
        self.states[state] += 1

    def ending(self, *, reason: str | None, interrupted: bool) -> Ending:
        """The result of the launch, if it ends now."""
        fine = self.states[State.COMPLETED] + self.states[State.PRUNED] == self._n_trials and reason is None
        outcome: Literal["done", "failed", "interrupted"] = "done" if fine else "failed"
        if interrupted and not fine:
            outcome = "interrupted"
        return Ending(outcome, reason, dict(self.states), self.left, self.clock() - self.began)
