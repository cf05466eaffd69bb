"""The queue of trials that every driver takes from: which is next, which is retried, and when to give up.

A `Source` decides which trials run, in which order, and whether one goes on after an evaluation.

Each kind of failure has its policy:

    lost            its worker or node is gone or was told to leave, which is not its fault: retried elsewhere, up to
                    `limits.lost` times in a row without an evaluation in between
    out_of_memory   where it shared a GPU, retried as it is with fewer beside it; else with its batches split into
                    twice as many parts, until a part is one example
    unavailable     a disk or network did not answer: retried after 1, 2, 4, ... seconds, `limits.unavailable` times
    diverged        ended; its rows are kept
    pruned          ended
    failed          ended: the same would happen again

If the first `limits.alike` trials all fail, or are lost for good, with the same message, the whole sweep is stopped:
something is wrong with it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from orchestrator.config.limits import Limits
from orchestrator.execution.failures import last_line
from orchestrator.execution.shared_trials import End, SharedTrials
from trials.record import EpochRecord, State
from trials.spec import TrialSpec


class Chances(NamedTuple):
    """What a search is likely to run: the chance of each trial that has not begun, and the most that it will run."""

    of_trials: Sequence[tuple[TrialSpec, float]]
    at_most: int | None


class Source(Protocol):
    """Decides which trials run and for how long. It depends on no driver, store or clock."""

    @property
    def is_over(self) -> bool:
        """Whether no trial will follow, provided that none is running."""
        ...

    def next(self) -> TrialSpec | None:
        """The next trial, which counts as running from now on; None if there is none at the moment."""
        ...

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> bool:
        """Take a record of a running trial; return whether the trial continues, which is the default of sources."""
        return True

    def ended(self, spec: TrialSpec, state: State) -> None:
        """Note that a trial no longer runs: it was pruned if it was told not to continue, else it has its `state`."""
        return

    def settle(self, spec: TrialSpec, state: State) -> bool:
        """A trial that was handed out never ran here: another driver has ended it, and its rows are in the store.

        Returns whether that ends it for this source; one that was pruned for another sweep may be handed out again.
        """
        ...

    def chances(self) -> Chances | None:
        """What this source is likely to run from now on; None if it is everything, or unknown."""
        return None

    def answer_lines(self, columns: int = 100) -> list[str]:
        """The conclusions so far, for a terminal with this many columns; empty if the table of settings says it all."""
        return []


class Listed(Source):
    """Trials in a fixed order, each run to its end; drivers that share them start at different ones."""

    def __init__(self, specs: Iterable[TrialSpec], *, start: float = 0.0) -> None:
        """`start` is the share of the trials before the first one, from 0 to 1; these come last."""
        trials = list(specs)
        first = int(start * len(trials))
        self._left = [*trials[first:], *trials[:first]][::-1]

    @property
    def is_over(self) -> bool:
        """Whether all were handed out."""
        return not self._left

    def next(self) -> TrialSpec | None:
        """The next trial of the list."""
        return self._left.pop() if self._left else None

    def settle(self, spec: TrialSpec, state: State) -> bool:
        """A trial that another sweep's schedule pruned comes again."""
        if state is State.PRUNED:
            self._left.append(spec)
        return state is not State.PRUNED


@dataclass(frozen=True)
class Attempt:
    """One attempt at a trial.

    Attributes:
        number: From 1, counted over all launches; part of its rows and checkpoints.
        accumulation: Number of parts that its batches are split into.
    """

    spec: TrialSpec
    number: int
    accumulation: int = 1


def _next(attempt: Attempt) -> Attempt:
    return replace(attempt, number=attempt.number + 1)


class TrialQueue:
    """The trials of a source in its order, and those that wait for a retry."""

    def __init__(
        self,
        source: Source,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        *,
        most: int | None = None,
        shared: SharedTrials | None = None,
    ) -> None:
        """Make a queue, which fetches the first trial of its source at once.

        Args:
            most: The number of trials to run at most.
            shared: Claims each attempt, where other drivers may want the same trials.
        """
        self._source, self._limits, self._clock, self._shared = source, limits, clock, shared
        self._most, self._n_begun, self._is_full = most, 0, False
        self._news: list[End] = []
        self._ends: dict[str, End] = {}
        self._ahead = self._following_attempt()
        self._waiting: list[tuple[float, Attempt]] = []
        self._running: dict[str, Attempt] = {}
        self._failures: dict[str, Counter[State]] = {}
        self._all_alike: list[str] | None = []

    def take(self) -> Attempt | None:
        """The next attempt, now running; None if there is none at the moment."""
        self._waiting.sort(key=lambda waiting: waiting[0])
        if self._waiting and self._waiting[0][0] <= self._clock():
            attempt = self._waiting.pop(0)[1]
            if self._shared is not None:
                attempt = replace(attempt, number=self._shared.again(attempt.spec.trial_id, attempt.number))
        else:
            following, self._ahead = self._ahead or (None if self._is_full else self._following_attempt()), None
            if following is None:
                return None
            if self._n_begun == self._most:
                self._ahead, self._is_full = following, True
                return None
            self._n_begun += 1
            attempt = following
        self._running[attempt.spec.trial_id] = attempt
        return attempt

    def chances(self) -> Chances | None:
        """The chances of its source."""
        return self._source.chances()

    def answer_lines(self, columns: int) -> list[str]:
        """The conclusions of its source."""
        return self._source.answer_lines(columns)

    def new_ends_elsewhere(self) -> list[End]:
        """Trials that are over as other drivers have ended them, each once."""
        news, self._news = self._news, []
        return news

    def _following_attempt(self) -> Attempt | None:
        """The first attempt of this launch at the next trial, claimed."""
        if self._shared is None:
            spec = self._source.next()
            return None if spec is None else Attempt(spec, 1)
        for end in self._shared.new_ends():
            self._ends[end.spec.trial_id] = end
            if self._source.settle(end.spec, end.state):
                self._news.append(end)
        found = self._shared.next(self._source.next)
        return None if found is None else Attempt(*found)

    def ends(self, planned: Iterable[TrialSpec]) -> list[End]:
        """How the newest attempt at each trial ended that ended in this launch, here or elsewhere.

        Args:
            planned: Trials that other drivers may have ended without being asked for here.
        """
        others = [] if self._shared is None else self._shared.ends(planned)
        return [*({end.spec.trial_id: end for end in others} | self._ends).values()]

    @property
    def is_over(self) -> bool:
        """Whether there will never be another attempt."""
        return not (self._waiting or self._running) and (self._is_full or self.is_exhausted)

    @property
    def is_exhausted(self) -> bool:
        """Whether no trial is left, also none that another driver has; a queue may end before, at `most` trials."""
        is_waiting = bool(self._news) or (self._shared is not None and self._shared.is_waiting)
        return self._ahead is None and not is_waiting and self._source.is_over

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> End | None:
        """Handle a record, which resets the trial's failure counts; how the trial ends with it, None if it goes on."""
        self._failures.pop(spec.trial_id, None)
        is_wanted = self._source.evaluated(spec, record)
        if record.last:
            return End(spec, State.COMPLETED)
        pruned = f"stopped after epoch {record.epoch:g} by the sweep's schedule"
        return None if is_wanted else End(spec, State.PRUNED, pruned)

    def ended(self, spec: TrialSpec, state: State, error: str | None, *, relieved: bool = False) -> float | None:
        """Handle the end of an attempt; the seconds until the trial is retried, None if the trial has ended too.

        `relieved`: it ran out of memory that it will share with fewer others.
        """
        attempt = self._running.pop(spec.trial_id)
        self._ends[spec.trial_id] = End(spec, state, error)
        following = (0.0, _next(attempt)) if relieved else self._following(attempt, state)
        if following is None:
            self._failures.pop(spec.trial_id, None)
            self._note(state, error)
            self._source.ended(spec, state)
            return None
        delay, attempt = following
        self._waiting.append((self._clock() + delay, attempt))
        return delay

    def _following(self, attempt: Attempt, state: State) -> tuple[float, Attempt] | None:
        failures = self._failures.setdefault(attempt.spec.trial_id, Counter())
        failures[state] += 1
        again, n = _next(attempt), failures[state]
        if state is State.LOST and n <= self._limits.lost:
            return 0.0, again
        if state is State.UNAVAILABLE and n <= self._limits.unavailable:
            return 2.0 ** (n - 1), again
        if state is State.OUT_OF_MEMORY and attempt.accumulation < attempt.spec.optim.batch_size:
            parts = min(2 * attempt.accumulation, attempt.spec.optim.batch_size)
            return 0.0, replace(again, accumulation=parts)
        return None

    def _note(self, state: State, error: str | None) -> None:
        if state not in (State.FAILED, State.LOST):  # lost for good: as often as may be, on a card that cannot compute
            self._all_alike = None
        elif self._all_alike is not None:
            self._all_alike.append(last_line(error))

    @property
    def broken(self) -> str | None:
        """Why the sweep should be stopped; None if it should not."""
        failures = self._all_alike
        if failures is None or len(failures) < self._limits.alike or len(set(failures)) > 1:
            return None
        return f"the first {len(failures)} trials all failed alike: {failures[0]}"
