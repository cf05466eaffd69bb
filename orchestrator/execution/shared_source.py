"""The trials of a source that other drivers of the store share: each is claimed before it runs.

A thread claims, so that neither trials nor Ray wait for the storage. Where trials are short it claims one ahead. A
trial that another driver has is waited for: until it has ended, or until that driver has.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from orchestrator.claims import Claims, Membership, RemovedError
from orchestrator.execution.trial_source import Chances, Listed, Order, Source, Verdict
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

    A trial that a schedule paused has ended, too, until it is wanted again: the next attempt resumes it, with any
    driver.
    """

    def __init__(self, store: Storage, membership: Membership, numbers: Mapping[str, int]) -> None:
        """`numbers` are those of each trial's next attempt, if that is not 1, as of the start of this launch: it or a
        later one ends the trial for this launch, whoever makes it.
        """
        self._membership, self._numbers = membership, dict(numbers)
        self._claims = Claims(store, membership)
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
        ended, free = {}, []
        for trial_id in waiting:
            attempt, state = self._ended.get(trial_id, (0, None))
            is_new = attempt >= max(self._numbers.get(trial_id, 1), self._mine.get(trial_id, 0) + 1)
            is_over = is_new and (state is State.PRUNED or not self._claims.is_claimed(trial_id))
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

    def release(self, trial_id: str) -> None:
        """Give up a trial that was claimed and has not begun. Raises StoreError."""
        self._claims.release(trial_id)

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


AHEAD_S = 10.0  # a trial is claimed ahead where trials take less than this, and given up if it did not start after it
_WAIT_S = 0.05  # the most that `next` waits for a claim


class SharedSource:
    """A `Source` that hands out what this driver has claimed. Close it, also after an error."""

    def __init__(
        self,
        source: Source,
        store: ResultStore,
        membership: Membership,
        numbers: Mapping[str, int],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Share the trials of a source; ahead of need, one is only claimed where the order depends on no result."""
        self._source, self._trials = source, SharedTrials(store.storage, membership, numbers)
        self._claiming = threading.Lock()  # of the trials
        self._list = source if isinstance(source, Listed) else None
        self._timing, self._clock = membership.timing, clock
        self._looked_s = float("-inf")
        self._free: list[str] = []  # of the trials elsewhere, those whose driver has ended

        # Of both threads, guarded by `_changed`, as the source is.
        self._changed = threading.Condition()
        self._claimed: deque[Order] = deque()
        self._in_hand: Order | None = None  # being claimed
        self._elsewhere: dict[str, Order] = {}
        self._news: deque[tuple[TrialSpec, State]] = deque()
        self._over: dict[str, int] = {}  # trials that ended here, and their attempts
        self._taken_s: dict[str, float] = {}
        self._last_taken_s = self._trial_s = self._claimed_s = float("inf")
        self._is_wanted, self._is_closed = False, False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="claims", daemon=True)
        self._thread.start()

    def __getstate__(self) -> dict[str, object]:
        return {}  # Tune pickles what takes from it into a snapshot that nothing reads

    # --- As a source

    @property
    def is_over(self) -> bool:
        """Whether no trial will follow, provided that none is running here; other drivers have ended theirs, as was
        told.
        """
        with self._changed:
            waits = self._claimed or self._in_hand or self._elsewhere or self._news
            return not waits and self._source.is_over

    def next(self) -> Order | None:
        """The next trial that this driver has claimed; None if there is none at the moment. Raises StoreError."""
        with self._changed:
            if not self._claimed:
                self._is_wanted = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._claimed or not self._is_wanted or self._error, _WAIT_S)
            if self._error is not None:
                raise self._error
            order = self._claimed.popleft() if self._claimed else None
            if order is not None:
                self._taken_s[order.spec.trial_id] = self._last_taken_s = self._clock()
                self._changed.notify_all()
            return order

    def again(self, trial_id: str, number: int) -> int:
        """Claim a further attempt at a trial that runs here. Raises StoreError."""
        with self._claiming:
            claimed = self._trials.again(trial_id, number)
        if claimed is None:
            raise RemovedError(f"trial {trial_id}: another driver counted this one as ended and runs it.")
        return claimed

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """Forward the record."""
        with self._changed:
            return self._source.evaluated(spec, record)

    def ended(self, spec: TrialSpec, state: State) -> None:
        """Forward the end."""
        with self._changed:
            self._trial_s = self._clock() - self._taken_s.pop(spec.trial_id, float("-inf"))
            self._source.ended(spec, state)

    def settle(self, spec: TrialSpec, state: State) -> bool:
        """Forward that another driver has ended the trial."""
        with self._changed:
            return self._source.settle(spec, state)

    def settled_elsewhere(self) -> list[tuple[TrialSpec, State]]:
        """Trials that are over as other drivers have ended them, each once."""
        with self._changed:
            news, self._news = list(self._news), deque()
            return news

    def chances(self) -> Chances | None:
        """Those of the source."""
        with self._changed:
            return self._source.chances()

    def found(self, columns: int = 100) -> list[str]:
        """The conclusions of the source."""
        with self._changed:
            return self._source.found(columns)

    # --- With other drivers

    def committed(self, attempts: Mapping[str, int]) -> None:
        """The rows of these trials' attempts, which ended here, are committed: their claims are not needed any more."""
        with self._changed:
            self._over |= attempts

    def close(self) -> None:
        """End the thread and delete what claims are not needed any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(self._timing.exit_s)

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(self._is_needed, self._timing.poll_s)
                    if self._is_closed:
                        break
                with self._claiming:
                    self._work()
        except Exception as error:  # the driver's thread raises it
            with self._changed:
                self._error = error
                self._changed.notify_all()
        with contextlib.suppress(Exception):  # a later launch finds that these trials are complete
            self._trials.forget(self._over)

    def _is_needed(self) -> bool:
        return self._is_closed or self._is_wanted or self._may_go_ahead()

    def _may_go_ahead(self) -> bool:
        """Whether trials are short, none is claimed ahead, and none that would be is known to be elsewhere."""
        is_short = self._trial_s < AHEAD_S and self._clock() - self._last_taken_s < AHEAD_S
        return self._list is not None and is_short and not self._claimed and not self._source.is_over

    def _work(self) -> None:
        if self._should_look():
            self._look()
        with self._changed:
            wanted = self._is_wanted or self._may_go_ahead()
            over, self._over = self._over, {}
            idle = bool(self._claimed) and not wanted and self._clock() - self._claimed_s > AHEAD_S
            order = self._claimed.popleft() if idle else None
            if order is not None:
                self._elsewhere[order.spec.trial_id] = order
        if order is not None:
            self._trials.release(order.spec.trial_id)
        while wanted and (order := self._following()) is not None:
            wanted = not self._claim(order)
        with self._changed:
            self._is_wanted = False
            self._changed.notify_all()
        self._trials.forget(over)

    def _should_look(self) -> bool:
        """At first, and as long as other drivers have trials that are waited for; a claim itself needs no look."""
        with self._changed:
            every_s = self._timing.poll_s if self._is_wanted else self._timing.beat_s
            waits = bool(self._elsewhere) or self._looked_s == float("-inf")
        return waits and self._timing.now() - self._looked_s >= every_s

    def _look(self) -> None:
        with self._changed:
            elsewhere = dict(self._elsewhere)
        ended, self._free = self._trials.look(elsewhere)
        self._looked_s = self._timing.now()
        with self._changed:
            for trial_id, state in ended.items():
                spec = self._elsewhere.pop(trial_id).spec
                if self._source.settle(spec, state):
                    self._news.append((spec, state))

    def _following(self) -> Order | None:
        """What to claim next: what a driver that has ended left, else the next trial of the source."""
        with self._changed:
            self._in_hand = self._elsewhere.pop(self._free.pop(0)) if self._free else self._source.next()
            return self._in_hand

    def _claim(self, order: Order) -> bool:
        """Claim a trial; whether this driver has it now."""
        number = self._trials.claim(order.spec.trial_id)
        with self._changed:
            self._in_hand = None
            if number is None:
                self._elsewhere[order.spec.trial_id] = order
                if self._list is not None:
                    self._list.jump()
            else:
                self._claimed.append(order._replace(number=number))
                self._claimed_s = self._clock()  # Tune asks once a second, when the last trial may be long ago
            self._changed.notify_all()
        return number is not None
