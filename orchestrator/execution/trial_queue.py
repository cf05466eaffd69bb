"""Which trial is tried next, which one again, and when to give up: one queue for every driver.

Each way to fail has its policy:

    lost            its worker or node is gone, or was asked to go: again elsewhere, as often as `limits.lost` in a row
                    without an evaluation between; not the trial's fault
    out_of_memory   again with its batches in twice as many parts, until a part is one example
    unavailable     a disk or a network did not answer: again after 1, 2, 4, ... seconds, `limits.unavailable` times
    diverged        over; its rows are kept
    pruned          over, or paused until its source gives it again
    failed          over: the same would happen again

If the first `limits.alike` trials all fail with the same words, the whole sweep is stopped: something is wrong with it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from orchestrator.execution.events import last_line
from orchestrator.execution.trial_source import Source, Verdict
from orchestrator.store.schema import State
from orchestrator.sweeps.sweep import Limits
from trials.record import EpochRecord
from trials.spec import TrialSpec


@dataclass(frozen=True)
class Attempt:
    """One try of a trial.

    Attributes:
        number: From 1 on, over all launches; rows and checkpoints carry it.
        accumulation: Parts that its batches are taken in.
        until: The epoch at or after which it pauses, at an evaluation; None for its end.
    """

    spec: TrialSpec
    number: int
    accumulation: int = 1
    until: float | None = None


class TrialQueue:
    """The trials of a source in its order, and those that wait to be tried again."""

    def __init__(
        self,
        source: Source,
        numbers: Mapping[str, int],
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`numbers` are those of each trial's first attempt here, where that is not 1."""
        self._source, self._numbers = source, dict(numbers)
        self._limits, self._clock = limits, clock
        self._verdicts: dict[str, Verdict] = {}
        self._accumulation: dict[str, int] = {}  # of paused trials
        self._again: list[tuple[float, Attempt]] = []
        self._running: dict[str, Attempt] = {}
        self._failures: dict[str, Counter[State]] = {}
        self._all_alike: list[str] | None = []

    def take(self) -> Attempt | None:
        """The next one, now running; None if there is none at this moment."""
        self._again.sort(key=lambda waiting: waiting[0])
        if self._again and self._again[0][0] <= self._clock():
            attempt = self._again.pop(0)[1]
        elif (order := self._source.next()) is not None:
            trial_id = order.spec.trial_id
            parts = self._accumulation.get(trial_id, 1)
            attempt = Attempt(order.spec, self._numbers.get(trial_id, 1), parts, order.until)
        else:
            return None
        self._running[attempt.spec.trial_id] = attempt
        return attempt

    @property
    def is_over(self) -> bool:
        """Whether there will never be another one."""
        return not (self._again or self._running) and self._source.is_over

    def running(self, trial_id: str) -> Attempt | None:
        """The attempt of a trial that is under way."""
        return self._running.get(trial_id)

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """The trial got on: what was lost before is forgiven. Whether it goes on."""
        self._failures.pop(spec.trial_id, None)
        verdict = self._source.evaluated(spec, record)
        if verdict is not Verdict.GO_ON:
            self._verdicts[spec.trial_id] = verdict
        return verdict

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> float | None:
        """An attempt is over.

        Returns:
            The seconds after which the trial is tried again; infinity where it is paused, and may never be; None if the
            trial is over too.
        """
        attempt = self._running.pop(spec.trial_id)
        verdict = self._verdicts.pop(spec.trial_id, None)
        following = self._following(attempt, state)
        if following is None:
            self._failures.pop(spec.trial_id, None)
            self._numbers[spec.trial_id] = attempt.number + 1
            self._accumulation[spec.trial_id] = attempt.accumulation
            self._note(state, error)
            self._source.ended(spec, state)
            return math.inf if state is State.PRUNED and verdict is Verdict.PAUSE else None
        delay, attempt = following
        self._again.append((self._clock() + delay, attempt))
        return delay

    def _following(self, attempt: Attempt, state: State) -> tuple[float, Attempt] | None:
        failures = self._failures.setdefault(attempt.spec.trial_id, Counter())
        failures[state] += 1
        again, n = replace(attempt, number=attempt.number + 1), failures[state]
        if state is State.LOST and n <= self._limits.lost:
            return 0.0, again
        if state is State.UNAVAILABLE and n <= self._limits.unavailable:
            return 2.0 ** (n - 1), again
        if state is State.OUT_OF_MEMORY and attempt.accumulation < attempt.spec.optim.batch_size:
            parts = min(2 * attempt.accumulation, attempt.spec.optim.batch_size)
            return 0.0, replace(again, accumulation=parts)
        return None

    def _note(self, state: State, error: str | None) -> None:
        if state is not State.FAILED:
            self._all_alike = None
        elif self._all_alike is not None:
            self._all_alike.append(last_line(error))

    @property
    def broken(self) -> str | None:
        """Why the sweep should be stopped, if it should."""
        found = self._all_alike
        if found is None or len(found) < self._limits.alike or len(set(found)) > 1:
            return None
        return f"the first {len(found)} trials all failed alike: {found[0]}"
