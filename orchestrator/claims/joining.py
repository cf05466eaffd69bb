"""Become present in a store: with the drivers that are there, or alone."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator

from orchestrator.claims.holder import Holder, Presence, this_process
from orchestrator.claims.membership import Membership
from orchestrator.claims.roster import TIMING, Member, Roster, Timing
from orchestrator.storage.storage import Storage
from trials.errors import StoreError


class BusyStoreError(StoreError):
    """Another process works on this store, and this one cannot work beside it."""


class _Joining:
    """Looks, asks and waits until it is present or refused.

    Attributes:
        membership: What was last asked for, and nobody has withdrawn: a signal may come at any moment.
    """

    def __init__(
        self, store: Storage, me: Holder, timing: Timing, say: Callable[[str], None],
        check_store: Callable[[], None], *, alone: bool,
    ) -> None:  # fmt: skip
        self._roster = Roster(store, me, timing, say)
        self._store, self._me, self._timing, self._say, self._alone = store, me, timing, say, alone
        self._check_store = check_store
        self._announced: set[str] = set()
        self._tries = 0
        self.membership: Membership | None = None

    def join(self) -> Membership:
        while True:
            others = self._roster.alive().values()
            waits_s = [self._judge(other) for other in others if self._alone or other.mode != "shares"]
            if not waits_s:
                self.membership = Membership(self._roster, self._me, self._timing, self._say, self._check_store)
                try:
                    if self.membership.enter(alone=self._alone):
                        return self.membership
                except StoreError:  # a storage that does not answer is not asked again
                    self.membership = None
                    raise
                self.membership = None
                waits_s = [self._pause_s()]
            self._timing.sleep(max(waits_s))

    def _judge(self, other: Member) -> float:
        """The seconds to wait before the next look at one that is in the way."""
        holder = self._roster.holder(other)
        if holder is None:  # it has replaced its object by the next one, or it cannot be understood
            return self._timing.poll_s
        stays = other.mode != "asks"
        if stays:
            if holder.presence(self._me) is Presence.HERE or other.token in self._roster.moved:
                raise BusyStoreError(
                    f"{self._store}: {holder} {holder.doing} there since {holder.since}, last heartbeat "
                    f"{holder.alive} by its clock. Wait until it ends, or stop that process."
                )
            if other.token not in self._announced:
                self._announced.add(other.token)
                self._say(
                    f"{self._store}: {holder} {holder.doing} there since {holder.since}, last heartbeat {holder.alive} "
                    f"by its clock; waiting {self._timing.stale_s:.0f} s for another one before it counts as ended."
                )
        return self._timing.poll_s if stays or self._roster.silent_s(other) > self._timing.poll_s else self._pause_s()

    def _pause_s(self) -> float:
        longest_s = min(self._timing.poll_s, self._timing.pause_s * 2.0 ** min(self._tries, 30))
        self._tries += 1
        return longest_s * random.uniform(0.1, 1.0)  # noqa: S311  # so that two do not collide again


@contextlib.contextmanager
def join(
    store: Storage,
    sweep: str = "",
    *,
    say: Callable[[str], None],
    check_store: Callable[[], None] = lambda: None,
    alone: bool = False,
    timing: Timing = TIMING,
    me: Holder | None = None,
) -> Iterator[Membership]:
    """Be present in a store while the block runs.

    Args:
        store: Its storage. The store has its marker already: a folder with only a presence is not recognised as one.
        sweep: The sweep that this driver runs; empty for a command.
        say: Receives a line about a process that is waited for or has ended.
        check_store: Raises StoreError if the store is gone; asked before each commit.
        alone: Whether no other process may be present, rather than any number of drivers.
        timing: The same for all drivers of the store.
        me: This process, unless a test says otherwise.

    Raises:
        BusyStoreError: another process has the store alone; or, with `alone`, is there at all: it is alive on this
            machine, or it sent a heartbeat while it was watched.
        StoreError: the storage does not answer, or cannot be written.
    """
    joining = _Joining(store, me or this_process(sweep), timing, say, check_store, alone=alone)
    try:
        membership = joining.join()
        membership.keep()
        yield membership
    finally:
        if joining.membership is not None:
            joining.membership.leave()
