"""What a driver knows of the trials that it shares with others: which it may run, and which have ended.

Two rules make that exact, whatever happens between their steps:

- Rows are read, then claims are listed. A trial with a new ended attempt and without a claim has ended for good, as a
  claim is deleted only after the row that ends its trial is committed.
- A trial is claimed, then rows are read. If the claim was free because the trial has just ended, its row is there.

A trial that a schedule paused has ended, too, until it is wanted again: the next attempt resumes it, with any driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.claims import Claims, Membership
from orchestrator.storage.storage import Storage
from orchestrator.store.follower import Follower
from orchestrator.store.schema import State


class SharedTrials:
    """The trials of a store, as one driver shares them. Not for several threads at once."""

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
