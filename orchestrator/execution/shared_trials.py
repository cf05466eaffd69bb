"""The trials of a store that other drivers share: each is claimed when it is asked for.

A trial that another driver has is waited for: until it has ended, or until that driver has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from orchestrator.claims import CLAIMS, Claims, Membership, RemovedError
from orchestrator.storage.storage import Storage
from orchestrator.store.parts import Follower
from trials.record import State
from trials.spec import TrialSpec


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


class SharedTrials:
    """What a driver knows about the trials of a store: which it may run, and which have ended. Not thread-safe.

    Two rules make that exact, whatever happens between their steps:

    - Rows are read before claims are listed. A trial with a new ended attempt and without a claim has ended for good,
      as a claim is deleted only after the row that ends its trial is committed.
    - A trial is claimed before rows are read. If the claim was free because the trial has just ended, its row is there.
      A driver that is alone need not read again: one that has joined since keeps its claims until this one knows of it.
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
        self._membership, self._numbers, self._lost = membership, dict(numbers), lost
        self._claims = Claims(store.at(CLAIMS), membership)
        self._rows = Follower(store, "trials", ("trial_id", "attempt", "state", "error"))
        self._ended: dict[str, tuple[int, State]] = {}  # a completed attempt of each trial, else the newest
        self._errors: dict[str, str | None] = {}  # of these attempts
        self._first = dict(numbers)
        self._known: dict[str, int] = {}  # attempts with rows that did not end the trial
        self._mine: dict[str, int] = {}  # the newest attempt claimed here
        self._elsewhere: dict[str, TrialSpec] = {}  # trials that other drivers had when they were wanted here
        self._free: list[str] = []  # those among them whose driver has ended
        self._over: dict[str, int] = {}  # attempts whose claims others may still need
        self._read_alone: int | None = None  # `Membership.alone` before rows were last read
        self._looked_s, self._is_waiting = float("-inf"), False

    @property
    def is_waiting(self) -> bool:
        """Whether another driver has, or had at the last look, a trial that is wanted here."""
        return bool(self._elsewhere)

    def next(self, following: Callable[[], TrialSpec | None]) -> tuple[TrialSpec, int] | None:
        """The next trial that no other driver has, and the number of its attempt, which is claimed.

        Args:
            following: The next trial that is wanted, if any; asked where no driver that has ended left one.

        Raises:
            RemovedError: others counted this driver as ended.
            StoreError: the storage does not answer.
        """
        while True:
            spec = self._elsewhere.pop(self._free.pop(0)) if self._free else following()
            if spec is None:
                self._is_waiting = True
                return None
            if (number := self.claim(spec.trial_id)) is not None:
                self._is_waiting = False
                return spec, number
            self._elsewhere[spec.trial_id] = spec

    def new_ends(self) -> list[End]:
        """Trials that were wanted here and that other drivers have ended, each once. Raises as `next` does.

        It looks on the first call, and as long as other drivers have trials; more often if there is nothing else to do.
        """
        every_s = self._membership.timing.poll_s if self._is_waiting else self._membership.timing.beat_s
        now_s = self._membership.timing.now()
        if self._looked_s != float("-inf") and not (self._elsewhere and now_s - self._looked_s >= every_s):
            return []
        ended, self._free = self.look(self._elsewhere)
        self._looked_s = self._membership.timing.now()
        return [self._end(self._elsewhere.pop(trial_id), state) for trial_id, state in ended.items()]

    def ends(self, specs: Iterable[TrialSpec]) -> list[End]:
        """How trials ended whose attempts other drivers have ended since this launch started, as of the last look."""
        states = ((spec, *self._ended.get(spec.trial_id, (0, None))) for spec in specs)
        return [
            self._end(spec, state)
            for spec, attempt, state in states
            if state is not None and attempt >= self._first.get(spec.trial_id, 1)
        ]

    def _end(self, spec: TrialSpec, state: State) -> End:
        return End(spec, state, self._errors.get(spec.trial_id), is_here=False)

    def look(self, waiting: Iterable[str]) -> tuple[dict[str, State], list[str]]:
        """Look at trials that other drivers had.

        Returns:
            The trials that have ended, with their states, and those that no driver has any more.

        Raises:
            RemovedError: another driver took this one for dead and removed it.
            StoreError: the storage does not answer.
        """
        self._membership.check()  # a driver that was removed must not claim
        self._read_rows()
        self._claims.refresh()
        if not self._claims.others:  # so claims that drivers have left on complete trials are of no use
            ended_here = {i: self._ended[i] for i in self._claims.claimed if i in self._ended}
            self._claims.delete({i: attempt for i, (attempt, state) in ended_here.items() if state is State.COMPLETED})
        ended, free = dict[str, State](), list[str]()
        for trial_id in waiting:
            attempt, state = self._ended.get(trial_id, (0, None))
            is_new = attempt >= max(self._numbers.get(trial_id, 1), self._mine.get(trial_id, 0) + 1)
            is_over = is_new and trial_id not in self._claims.claimed
            self._known[trial_id] = attempt
            if state is not None and (state is State.COMPLETED or is_over):
                ended[trial_id] = state
                self._numbers[trial_id] = attempt + 1
                continue
            if self._claims.is_free(trial_id):
                free.append(trial_id)
        return ended, free

    def claim(self, trial_id: str) -> int | None:
        """Claim a trial; return the number of its next attempt, or None if another driver runs it or has ended it."""
        if self._is_news(trial_id):
            return None
        alone, least = self._membership.alone, self._newest_known(trial_id) + 1
        number = self._claims.take(trial_id, least)
        if number is None:
            return None
        was_alone = alone is not None and alone == self._read_alone == self._membership.alone
        if not (was_alone and number == least):
            self._read_rows()
        if self._is_news(trial_id):
            self._claims.drop(trial_id)
            return None
        self._mine[trial_id] = number
        return number

    def again(self, trial_id: str, number: int) -> int:
        """Claim a further attempt at a trial that runs here. Raises as `next` does."""
        claimed = self._claims.take(trial_id, number)
        if claimed is None:
            raise RemovedError(f"trial {trial_id}: another driver counted this one as ended and runs it.")
        self._mine[trial_id] = claimed
        return claimed

    def forget(self, attempts: Mapping[str, int]) -> None:
        """Delete the claims to trials' attempts that ended here and whose rows are committed. Raises StoreError.

        They stay until each driver that was here before knows of this one.
        """
        self._over |= attempts
        if self._membership.is_known():
            ended, self._over = self._over, {}
            self._claims.delete(ended)

    def _newest_known(self, trial_id: str) -> int:
        """The newest attempt that may have rows: from before this launch, or one that did not end the trial."""
        return max(self._numbers.get(trial_id, 1) - 1, self._known.get(trial_id, 0), self._mine.get(trial_id, 0))

    def _is_news(self, trial_id: str) -> bool:
        """Whether the trial is complete, or an attempt that this driver did not know of has ended."""
        attempt, state = self._ended.get(trial_id, (0, None))
        return state is State.COMPLETED or attempt > self._newest_known(trial_id)

    def _read_rows(self) -> None:
        self._read_alone = self._membership.alone
        for part in self._rows.poll().rows:
            for row in part.to_pylist():
                attempt, state = self._ended.get(row["trial_id"], (0, None))
                is_lost = (row["trial_id"], row["attempt"]) in self._lost
                if not is_lost and state is not State.COMPLETED and row["attempt"] >= attempt:
                    self._ended[row["trial_id"]] = (row["attempt"], State(row["state"]))
                    self._errors[row["trial_id"]] = row["error"]
