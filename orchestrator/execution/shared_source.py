"""The trials of a source that other drivers of the store share: each is claimed when it is asked for.

A trial that another driver has is waited for: until it has ended, or until that driver has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.claims import CLAIMS, Claims, Membership, RemovedError
from orchestrator.execution.trial_queue import Chances, Order, Source
from orchestrator.storage.storage import Storage
from orchestrator.store import ResultStore
from orchestrator.store.follower import Follower
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.state import State


class SharedTrials:
    """What a driver knows of the trials of a store: which it may run, and which have ended. Not for several threads.

    Two rules make that exact, whatever happens between their steps:

    - Rows are read, then claims are listed. A trial with a new ended attempt and without a claim has ended for good, as
      a claim is deleted only after the row that ends its trial is committed.
    - A trial is claimed, then rows are read. If the claim was free because the trial has just ended, its row is there.
    """

    def __init__(self, store: Storage, membership: Membership, numbers: Mapping[str, int]) -> None:
        """`numbers` are those of each trial's next attempt, if that is not 1, as of the start of this launch: it or a
        later one ends the trial for this launch, whoever makes it.
        """
        self._membership, self._numbers = membership, dict(numbers)
        self._claims = Claims(store.at(CLAIMS), membership)
        self._rows = Follower(store, "trials", ("trial_id", "attempt", "state"))
        self._ended: dict[str, tuple[int, State]] = {}  # a completed attempt of each trial, else the newest
        self._known: dict[str, int] = {}  # attempts with rows that did not end the trial
        self._mine: dict[str, int] = {}  # the newest attempt claimed here

    def look(self, waiting: Iterable[str]) -> tuple[dict[str, State], list[str]]:
        """Look at trials that other drivers had.

        Returns:
            Those that have ended, with their state, and those that nobody has any more.

        Raises:
            RemovedError: others counted this driver as ended.
            StoreError: the storage does not answer.
        """
        self._membership.check()  # a driver that was removed must not claim
        self._read_rows()
        self._claims.refresh()
        ended, free = dict[str, State](), list[str]()
        for trial_id in waiting:
            attempt, state = self._ended.get(trial_id, (0, None))
            is_new = attempt >= max(self._numbers.get(trial_id, 1), self._mine.get(trial_id, 0) + 1)
            is_over = is_new and not self._claims.is_claimed(trial_id)
            self._known[trial_id] = attempt
            if state is not None and (state is State.COMPLETED or is_over):
                ended[trial_id] = state
                self._numbers[trial_id] = attempt + 1
                continue
            if self._claims.is_free(trial_id):
                free.append(trial_id)
        return ended, free

    def claim(self, trial_id: str) -> int | None:
        """Claim a trial; the number of its next attempt, None if another driver has it or has ended it."""
        if self._is_news(trial_id):
            return None
        number = self._claims.take(trial_id, self._newest_known(trial_id) + 1)
        if number is None:
            return None
        self._read_rows()
        if self._is_news(trial_id):
            self._claims.drop(trial_id)
            return None
        self._mine[trial_id] = number
        return number

    def again(self, trial_id: str, number: int) -> int | None:
        """Claim a further attempt at a trial that runs here; None if another driver has it. Raises StoreError."""
        claimed = self._claims.take(trial_id, number)
        if claimed is not None:
            self._mine[trial_id] = claimed
        return claimed

    def forget(self, attempts: Mapping[str, int]) -> None:
        """Delete the claims to trials' attempts that ended here and whose rows are committed. Raises StoreError."""
        self._claims.delete(attempts)

    def _newest_known(self, trial_id: str) -> int:
        """The newest attempt that may have rows: from before this launch, or one that did not end the trial."""
        return max(self._numbers.get(trial_id, 1) - 1, self._known.get(trial_id, 0), self._mine.get(trial_id, 0))

    def _is_news(self, trial_id: str) -> bool:
        """Whether the trial is complete, or an attempt that this driver did not know of has ended."""
        attempt, state = self._ended.get(trial_id, (0, None))
        return state is State.COMPLETED or attempt > self._newest_known(trial_id)

    def _read_rows(self) -> None:
        for part in self._rows.poll().rows:
            for row in part.to_pylist():
                attempt, state = self._ended.get(row["trial_id"], (0, None))
                if state is not State.COMPLETED and row["attempt"] >= attempt:
                    self._ended[row["trial_id"]] = (row["attempt"], State(row["state"]))


class SharedSource(Source):
    """A `Source` that hands out what this driver has claimed."""

    def __init__(self, source: Source, store: ResultStore, membership: Membership, numbers: Mapping[str, int]) -> None:
        """Share the trials of a source; `numbers` as of `SharedTrials`."""
        self._source, self._trials = source, SharedTrials(store.storage, membership, numbers)
        self._timing = membership.timing
        self._looked_s, self._is_waiting = float("-inf"), False
        self._elsewhere: dict[str, TrialSpec] = {}
        self._free: list[str] = []  # of these, the ones whose driver has ended
        self._news: list[tuple[TrialSpec, State]] = []

    def __getstate__(self) -> dict[str, object]:
        return {}  # Tune pickles what takes from it into a snapshot that nothing reads

    @property
    def is_over(self) -> bool:
        """Whether no trial will follow, provided that none is running here; other drivers have ended theirs, as was
        told.
        """
        return not (self._elsewhere or self._news) and self._source.is_over

    def next(self) -> Order | None:
        """The next trial that no other driver has, claimed; None if there is none at the moment. Raises StoreError."""
        self._look()
        while (spec := self._following()) is not None:
            if (number := self._trials.claim(spec.trial_id)) is not None:
                self._is_waiting = False
                return Order(spec, number)
            self._elsewhere[spec.trial_id] = spec
        self._is_waiting = True
        return None

    def _following(self) -> TrialSpec | None:
        """What to claim next: what a driver that has ended left, else the next trial of the source."""
        if self._free:
            return self._elsewhere.pop(self._free.pop(0))
        order = self._source.next()
        return None if order is None else order.spec

    def _look(self) -> None:
        """At first, and as long as other drivers have trials that are waited for; a claim itself needs no look."""
        every_s = self._timing.poll_s if self._is_waiting else self._timing.beat_s
        is_first = self._looked_s == float("-inf")
        if not (is_first or (self._elsewhere and self._timing.now() - self._looked_s >= every_s)):
            return
        ended, self._free = self._trials.look(self._elsewhere)
        self._looked_s = self._timing.now()
        for trial_id, state in ended.items():
            spec = self._elsewhere.pop(trial_id)
            if self._source.settle(spec, state):
                self._news.append((spec, state))

    def again(self, trial_id: str, number: int) -> int:
        """Claim a further attempt at a trial that runs here. Raises StoreError."""
        claimed = self._trials.again(trial_id, number)
        if claimed is None:
            raise RemovedError(f"trial {trial_id}: another driver counted this one as ended and runs it.")
        return claimed

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> bool:
        """Forward the record."""
        return self._source.evaluated(spec, record)

    def ended(self, spec: TrialSpec, state: State) -> None:
        """Forward the end."""
        self._source.ended(spec, state)

    def settle(self, spec: TrialSpec, state: State) -> bool:
        """Forward that another driver has ended the trial."""
        return self._source.settle(spec, state)

    def settled_elsewhere(self) -> list[tuple[TrialSpec, State]]:
        """Trials that are over as other drivers have ended them, each once."""
        news, self._news = self._news, []
        return news

    def chances(self) -> Chances | None:
        """Those of the source."""
        return self._source.chances()

    def found(self, columns: int = 100) -> list[str]:
        """The conclusions of the source."""
        return self._source.found(columns)

    def committed(self, attempts: Mapping[str, int]) -> None:
        """The rows of these attempts, which ended here, are committed: their claims are not needed any more. Raises
        StoreError.
        """
        self._trials.forget(attempts)
