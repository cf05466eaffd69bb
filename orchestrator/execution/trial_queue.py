"""The queue of trials that every driver takes from: which is next, which is retried, and when to give up.

A `Source` decides which trials run, in which order, and whether one goes on after an evaluation. Each attempt is
claimed when it is asked for (`SharedTrials`). A trial that another driver has is waited for: until it has ended, or
until that driver has.

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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from orchestrator.claims import CLAIMS, Claims, Membership, RemovedError
from orchestrator.config.limits import Limits
from orchestrator.execution.failures import last_line
from orchestrator.storage.storage import Storage
from orchestrator.store.parts import Follower
from trials.record import EpochRecord, State
from trials.spec import TrialSpec


class Chances(NamedTuple):
    """What a search is likely to run: the chance of each trial that has not begun, and the most that it will run."""

    of_trials: Sequence[tuple[TrialSpec, float]]
    at_most: int | None


@dataclass(frozen=True)
class End:
    """How an attempt at a trial ended.

    Attributes:
        error: The error as one line or a traceback; None if there was none.
        is_here: Whether this launch made the attempt, rather than another driver.
    """

    spec: TrialSpec
    state: State
    error: str | None = None
    is_here: bool = True


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

    def ended(self, end: End) -> None:
        """Note that a trial no longer runs: it was pruned if it was told not to continue.

        One that another driver has ended never ran here, and its rows are in the store.
        """
        return

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


class _Row(NamedTuple):
    """What a store says of a trial: its completed attempt, else its newest one; 0 if it has none."""

    attempt: int = 0
    state: State | None = None
    error: str | None = None


class SharedTrials:
    """What a driver knows of the trials of a store: which it may run, and which have ended. Not thread-safe.

    Two rules make that exact, whatever happens between their steps:

    - Rows are read before claims are listed. A trial with a new ended attempt and without a claim has ended for good,
      as a claim is deleted only after the row that ends its trial is committed.
    - A trial is claimed before rows are read. If the claim was free because the trial has just ended, its row is there.

    Attributes:
        poll_s: Seconds between two looks at the trials that other drivers have.
    """

    def __init__(
        self,
        store: Storage,
        membership: Membership,
        numbers: Mapping[str, int],
        lost: Collection[tuple[str, int]] = frozenset(),
    ) -> None:
        """`numbers` holds the number of each trial's next attempt at the start of this launch, if it is not 1: that one
        or a later one, by any driver, ends the trial. `lost` are completed attempts that have lost rows.
        """
        self._membership, self._first, self._lost = membership, numbers, lost
        self.poll_s = membership.timing.poll_s
        self._claims = Claims(store.subfolder(CLAIMS), membership)
        self._table = Follower(store, "trials", ("trial_id", "attempt", "state", "error"))
        self._rows: dict[str, _Row] = {}
        self._past = {trial_id: number - 1 for trial_id, number in numbers.items()}  # attempts that are no news
        self._known: dict[str, int] = {}  # attempts with rows that did not end the trial

    def look(self, waiting: Iterable[str]) -> tuple[list[str], list[str]]:
        """Look at trials that other drivers had.

        Returns:
            The trials that have ended (`end_of` tells how), and those that no driver has any more.

        Raises:
            RemovedError: another driver took this one for dead and removed it.
            StoreError: the storage does not answer.
        """
        self._membership.check()  # a driver that was removed must not claim
        self._read_rows()
        self._claims.refresh()
        if not self._claims.others:  # so claims that drivers have left on complete trials are of no use
            left = {trial_id: self._row(trial_id) for trial_id in self._claims.claimed}
            self._claims.delete({i: row.attempt for i, row in left.items() if row.state is State.COMPLETED})
        ended, free = list[str](), list[str]()
        for trial_id in waiting:
            row = self._row(trial_id)
            self._known[trial_id] = row.attempt
            is_over = row.attempt > self._past.get(trial_id, 0) and trial_id not in self._claims.claimed
            if row.state is State.COMPLETED or is_over:
                ended.append(trial_id)
                self._past[trial_id] = row.attempt
            elif self._claims.is_free(trial_id):
                free.append(trial_id)
        return ended, free

    def end_of(self, spec: TrialSpec) -> End:
        """How another driver has ended a trial."""
        row = self._rows[spec.trial_id]
        assert row.state is not None, "a row has a state"
        return End(spec, row.state, row.error, is_here=False)

    def ends(self, specs: Iterable[TrialSpec]) -> list[End]:
        """How trials ended whose attempts other drivers have ended since this launch started, as of the last look."""
        begun = (spec for spec in specs if self._row(spec.trial_id).attempt >= self._first.get(spec.trial_id, 1))
        return [self.end_of(spec) for spec in begun]

    def claim(self, trial_id: str) -> int | None:
        """Claim a trial; return the number of its next attempt, or None if another driver runs it or has ended it.

        Raises as `look` does.
        """
        if self._is_news(trial_id):
            return None
        number = self._claims.take(trial_id, self._newest_known(trial_id) + 1)
        if number is None:
            return None
        self._read_rows()
        if self._is_news(trial_id):
            self._claims.drop(trial_id)
            return None
        self._past[trial_id] = number
        return number

    def again(self, trial_id: str, number: int) -> int:
        """Claim a further attempt at a trial that runs here. Raises as `look` does."""
        claimed = self._claims.take(trial_id, number)
        if claimed is None:
            raise RemovedError(f"trial {trial_id}: another driver counted this one as ended and runs it.")
        self._past[trial_id] = claimed
        return claimed

    def forget(self, attempts: Mapping[str, int]) -> None:
        """Delete the claims to trials' attempts that ended here and whose rows are committed. Raises StoreError."""
        self._claims.delete(attempts)

    def _newest_known(self, trial_id: str) -> int:
        """The newest attempt that may have rows: from before this launch, or one that did not end the trial."""
        return max(self._past.get(trial_id, 0), self._known.get(trial_id, 0))

    def _is_news(self, trial_id: str) -> bool:
        """Whether the trial is complete, or an attempt that this driver did not know of has ended."""
        row = self._row(trial_id)
        return row.state is State.COMPLETED or row.attempt > self._newest_known(trial_id)

    def _row(self, trial_id: str) -> _Row:
        return self._rows.get(trial_id, _Row())

    def _read_rows(self) -> None:
        for part in self._table.poll().rows:
            for row in part.to_pylist():
                before, trial_id, attempt = self._row(row["trial_id"]), row["trial_id"], row["attempt"]
                is_lost = (trial_id, attempt) in self._lost
                if not is_lost and before.state is not State.COMPLETED and attempt >= before.attempt:
                    self._rows[trial_id] = _Row(attempt, State(row["state"]), row["error"])


class TrialQueue:
    """The trials of a source in its order, and those that wait for a retry."""

    def __init__(
        self,
        source: Source,
        limits: Limits,
        shared: SharedTrials,
        clock: Callable[[], float] = time.monotonic,
        *,
        most: int | None = None,
    ) -> None:
        """Make a queue, which fetches the first trial of its source at once; `most` is the number that run at most."""
        self._source, self._limits, self._shared, self._clock = source, limits, shared, clock
        self._most, self._n_begun = most, 0
        self._elsewhere: dict[str, TrialSpec] = {}  # trials that other drivers had when they were wanted here
        self._free: list[str] = []  # those among them whose driver has ended
        self._news: list[End] = []
        self._ends: dict[str, End] = {}
        self._look()
        self._ahead = self._following_attempt()
        self._waiting: list[tuple[float, Attempt]] = []
        self._running: dict[str, Attempt] = {}
        self._failures: dict[str, Counter[State]] = {}
        self._all_alike: list[str] | None = []

    def take(self) -> Attempt | None:
        """The next attempt, now running; None if there is none at the moment.

        Raises:
            RemovedError: others counted this driver as ended.
            StoreError: the storage does not answer.
        """
        self._waiting.sort(key=lambda waiting: waiting[0])
        if self._waiting and self._waiting[0][0] <= self._clock():
            attempt = self._waiting.pop(0)[1]
            attempt = replace(attempt, number=self._shared.again(attempt.spec.trial_id, attempt.number))
        else:
            following = None if self._is_full else self._ahead or self._following_attempt()
            if following is None:
                return None
            self._ahead = None
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
        """The first attempt of this launch at the next trial that no other driver has, claimed."""
        if self._elsewhere and self._clock() - self._looked_s >= self._shared.poll_s:
            self._look()
        while (spec := self._wanted()) is not None:
            if (number := self._shared.claim(spec.trial_id)) is not None:
                return Attempt(spec, number)
            self._elsewhere[spec.trial_id] = spec
        return None

    def _wanted(self) -> TrialSpec | None:
        return self._elsewhere.pop(self._free.pop(0)) if self._free else self._source.next()

    def _look(self) -> None:
        ended, self._free = self._shared.look(self._elsewhere)
        self._looked_s = self._clock()
        for trial_id in ended:
            end = self._shared.end_of(self._elsewhere[trial_id])
            if end.state is State.PRUNED:  # by the schedule of another sweep: here it is decided anew
                self._free.append(trial_id)
                continue
            del self._elsewhere[trial_id]
            self._ends[trial_id] = end
            self._source.ended(end)
            self._news.append(end)

    def ends(self, planned: Iterable[TrialSpec]) -> list[End]:
        """How the newest attempt at each trial ended that ended in this launch, here or elsewhere.

        Args:
            planned: Trials that other drivers may have ended without being asked for here.
        """
        return [*({end.spec.trial_id: end for end in self._shared.ends(planned)} | self._ends).values()]

    @property
    def _is_full(self) -> bool:
        return self._n_begun == self._most

    @property
    def is_over(self) -> bool:
        """Whether there will never be another attempt."""
        return not (self._waiting or self._running) and (self._is_full or self.is_exhausted)

    @property
    def is_exhausted(self) -> bool:
        """Whether no trial is left, also none that another driver has; a queue may end before, at `most` trials."""
        return not (self._ahead or self._news or self._elsewhere) and self._source.is_over

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> End | None:
        """Handle a record, which resets the trial's failure counts; how the trial ends with it, None if it goes on."""
        self._failures.pop(spec.trial_id, None)
        is_wanted = self._source.evaluated(spec, record)
        if record.last:
            return End(spec, State.COMPLETED)
        pruned = f"stopped after epoch {record.epoch:g} by the sweep's schedule"
        return None if is_wanted else End(spec, State.PRUNED, pruned)

    def ended(self, end: End, *, relieved: bool = False) -> float | None:
        """Handle the end of an attempt; the seconds until the trial is retried, None if the trial has ended too.

        `relieved`: it ran out of memory that it will share with fewer others.
        """
        attempt = self._running.pop(end.spec.trial_id)
        self._ends[end.spec.trial_id] = end
        following = (0.0, _next(attempt)) if relieved else self._following(attempt, end.state)
        if following is None:
            self._failures.pop(end.spec.trial_id, None)
            self._note(end)
            self._source.ended(end)
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

    def _note(self, end: End) -> None:
        # A trial is lost for good if that happens again and again, as on a card that cannot compute.
        if end.state not in (State.FAILED, State.LOST):
            self._all_alike = None
        elif self._all_alike is not None:
            self._all_alike.append(last_line(end.error))

    @property
    def broken(self) -> str | None:
        """Why the sweep should be stopped; None if it should not."""
        failures = self._all_alike
        if failures is None or len(failures) < self._limits.alike or len(set(failures)) > 1:
            return None
        return f"the first {len(failures)} trials all failed alike: {failures[0]}"
