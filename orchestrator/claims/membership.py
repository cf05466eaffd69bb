"""Our own presence in a store: it sends heartbeats, checks that nobody has removed it, and leaves."""

from __future__ import annotations

import contextlib
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

from orchestrator.claims.roster import TIMING, Holder, Member, Mode, Presence, Roster, Timing, this_process
from orchestrator.storage.storage import Storage
from trials.errors import StoreError

__all__ = ["TIMING", "Membership", "RemovedError", "Timing"]


class RemovedError(StoreError):
    """Others counted this driver as ended and have its trials; it may no longer commit."""


class Membership:
    """One process's presence, from asking to its end.

    Attributes:
        token: Identifies it; that of its claims.
        roster: The others.
        timing: As it joined.
        check_store: Raises StoreError if the store that it is present in is gone; a write would make it again.
    """

    def __init__(self, roster: Roster, me: Holder, timing: Timing, say: Callable[[str], None]) -> None:
        self.roster, self._me, self.timing, self._say = roster, me, timing, say
        self.check_store: Callable[[], None] = lambda: None
        self.token = uuid.uuid4().hex[:16]
        self._mode: Mode = "shares"
        self._count = 0
        self._standing: str | None = None  # the newest object that a listing has shown
        self._confirmed_s = float("-inf")
        self._lost = ""
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="heartbeats", daemon=True)

    @property
    def is_sure(self) -> bool:
        """Whether nobody can have removed it yet; known without asking the storage."""
        return not self._lost and self.timing.now() - self._confirmed_s < self.timing.stale_s / 2

    def check(self) -> None:
        """Return if this process may commit. Asks the storage only if the last heartbeat is too long ago.

        Raises:
            RemovedError: others counted it as ended.
            StoreError: the storage does not answer, or the store is gone.
        """
        assert not self._ending.is_set(), "checked after its end"
        self.check_store()
        if self.is_sure:
            return
        with self._lock:  # a heartbeat in progress may answer it
            if not self.is_sure and not self._lost:
                self._beat(self._mode)
            if self._lost:
                raise RemovedError(self._lost)

    def others(self) -> dict[str, Member]:
        """The other processes that may be alive, by token. Raises StoreError."""
        return self.roster.alive(but=self.token)

    def is_first(self) -> bool:
        """Whether this one is to do what one driver should: its token is the first of all. Raises StoreError."""
        return all(self.token < other for other in self.others())

    def enter(self, *, alone: bool) -> bool:
        """Become present; whether that is so now. If not, it is withdrawn, as another process has the store or asks.

        Raises:
            StoreError: the storage does not answer.
        """
        others = self._beat("asks" if alone else "shares")
        may = not others if alone else all(other.mode == "shares" for other in others.values())
        if may and alone and not self._lost:
            self._mode = "alone"
            self._beat(self._mode)
        if may and not self._lost:
            return True
        self._withdraw()
        return False

    def announce(self, **news: str | float | None) -> None:
        """Publish the address of this driver's Ray dashboard, or what it is likely to run, with the next heartbeat."""
        self._me = replace(self._me, **news)  # type: ignore[arg-type]  # fields of a Holder

    def keep(self) -> None:
        """Send heartbeats from now on."""
        self._keeper.start()

    def leave(self) -> None:
        """End the presence, also one that was being asked for; waits at most `exit_s` for a storage."""
        self._ending.set()
        with contextlib.suppress(RuntimeError):  # it runs already, unless a signal came before its first heartbeat
            self._keeper.start()
        self._keeper.join(self.timing.exit_s)
        if self._keeper.is_alive():
            self._say_left("it does not answer")

    def _keep(self) -> None:
        while not self._ending.wait(self.timing.beat_s):
            with contextlib.suppress(StoreError), self._lock:  # if it persists, `check` reports it
                if not self._lost:
                    self._beat(self._mode)
        try:
            self._withdraw()
        except StoreError as error:
            self._say_left(str(error))

    def _say_left(self, why: str) -> None:
        self._say(
            f"{self.roster.storage}: this driver's presence could not be deleted ({why}). "
            f"Drivers on other machines wait {self.timing.stale_s:.0f} s for it."
        )

    def _beat(self, mode: Mode) -> dict[str, Member]:
        """Send a heartbeat; the others that are listed after it."""
        began_s = self.timing.now()
        self._count += 1  # even if the write fails: it may take effect later
        written = f"{self.token}-{self._count:08d}-{mode}.json"
        self.roster.storage.write(written, self._me.as_json())
        others = self.roster.members()
        mine = others.pop(self.token, None)
        names = mine.names if mine else ()
        if {written, self._standing or written} <= set(names):
            self._standing, self._confirmed_s = written, began_s
            names = tuple(name for name in names if name < written)
        else:
            self._lost = (
                f"{self.roster.storage}: another driver or user removed this driver ({self._me}) while it sent no "
                "heartbeat. What was committed before is intact; other drivers run the rest. Nothing needs to be done."
            )
        with contextlib.suppress(StoreError):  # the next heartbeat or the end deletes them
            self.roster.remove(names)
        return others

    def _withdraw(self) -> None:
        mine = self.roster.members().get(self.token)
        if mine:
            self.roster.remove(mine.names)


# Become present in a store: with the drivers that are there, or alone.


class BusyStoreError(StoreError):
    """Another process works on this store, and this one cannot work beside it."""


class _Joining:
    """Looks, asks and waits until it is present or refused.

    Attributes:
        membership: What was last asked for, and nobody has withdrawn: a signal may come at any moment.
    """

    def __init__(self, store: Storage, me: Holder, timing: Timing, say: Callable[[str], None], *, alone: bool) -> None:
        self._roster = Roster(store, me, timing, say)
        self._store, self._me, self._timing, self._say, self._alone = store, me, timing, say, alone
        self._announced: set[str] = set()
        self._tries = 0
        self.membership: Membership | None = None

    def join(self) -> Membership:
        while True:
            others = self._roster.alive().values()
            waits_s = [self._judge(other) for other in others if self._alone or other.mode != "shares"]
            if not waits_s:
                self.membership = Membership(self._roster, self._me, self._timing, self._say)
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
    alone: bool = False,
    timing: Timing = TIMING,
    me: Holder | None = None,
) -> Iterator[Membership]:
    """Be present in a store while the block runs.

    Args:
        store: Its storage. The store has its marker already: a folder with only a presence is not recognised as one.
        sweep: The sweep that this driver runs; empty for a command.
        say: Receives a line about a process that is waited for or has ended.
        alone: Whether no other process may be present, rather than any number of drivers.
        timing: The same for all drivers of the store.
        me: This process, unless a test says otherwise.

    Raises:
        BusyStoreError: another process has the store alone; or, with `alone`, is there at all: it is alive on this
            machine, or it sent a heartbeat while it was watched.
        StoreError: the storage does not answer, or cannot be written.
    """
    joining = _Joining(store, me or this_process(sweep), timing, say, alone=alone)
    try:
        membership = joining.join()
        membership.keep()
        yield membership
    finally:
        if joining.membership is not None:
            joining.membership.leave()
