"""Acquire a sweep's lease: list the claims, then wait, fail, or claim it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping

from orchestrator.lease.claims import LEASES, Claim, ClaimFolder
from orchestrator.lease.holder import Holder, Presence, this_driver
from orchestrator.lease.lease import TIMING, Lease, Timing
from orchestrator.storage.storage import Storage
from trials.errors import StoreError


class LeaseHeldError(StoreError):
    """Another driver runs this sweep in this store."""


class _Watch:
    """How long each claim has not changed while we polled. Polls that hung and times when we slept do not count."""

    def __init__(self, longest_gap_s: float) -> None:
        self._longest_gap_s = longest_gap_s
        self._polled_s = float("inf")
        self._counts: dict[str, int] = {}
        self._silent_s: dict[str, float] = {}
        self.changed: set[str] = set()

    def update(self, seen: Mapping[str, Claim], began_s: float, ended_s: float) -> None:
        """Add a listing that was made between two times."""
        gap_s = max(0.0, min(began_s - self._polled_s, self._longest_gap_s))
        for token, claim in seen.items():
            same = self._counts.get(token) == claim.count
            self._silent_s[token] = self._silent_s[token] + gap_s if same else 0.0
            if not same and token in self._counts:
                self.changed.add(token)
            self._counts[token] = claim.count
        self._polled_s = ended_s

    def silent_s(self, claim: Claim) -> float:
        """Seconds for which a claim has not changed."""
        return self._silent_s[claim.token]


class _Taker:
    """Polls, asks and waits until the lease is held or refused.

    Attributes:
        lease: What was last asked for, and nobody has withdrawn: a signal may come at any moment.
    """

    def __init__(self, folder: ClaimFolder, sweep: str, me: Holder, timing: Timing, say: Callable[[str], None]) -> None:
        self._folder, self._sweep, self._me, self._timing, self._say = folder, sweep, me, timing, say
        self._watch = _Watch(2 * timing.poll_s)
        self._announced: set[str] = set()
        self._tries = 0
        self.lease: Lease | None = None

    def take(self) -> Lease:
        while True:
            waits_s = self._others()
            if not waits_s:
                self.lease = Lease(self._folder, self._me, self._timing, self._say)
                try:
                    if self.lease.ask():
                        return self.lease
                except StoreError:  # a storage that does not answer is not asked again
                    self.lease = None
                    raise
                self.lease = None
                waits_s = [self._pause_s()]
            self._timing.sleep(max(waits_s))

    def _others(self) -> list[float]:
        """For each claim of another driver, the seconds to wait before the next poll."""
        began_s = self._timing.now()
        seen = self._folder.claims()
        self._watch.update(seen, began_s, self._timing.now())
        return [self._judge(claim) for claim in seen.values()]

    def _judge(self, claim: Claim) -> float:
        holder = self._folder.holder(claim)
        if holder is None:  # its driver has replaced it by its next one
            return 0.0
        presence = holder.presence(self._me)
        silent_s = self._watch.silent_s(claim)
        if claim.holds and (presence is Presence.HERE or claim.token in self._watch.changed):
            raise LeaseHeldError(self._refusal(holder))
        if presence is Presence.GONE or silent_s >= self._timing.stale_s:
            why = "has ended" if presence is Presence.GONE else f"sent no heartbeat for {silent_s:.0f} s"
            self._say(f"sweep {self._sweep}: {holder} {why}; taking over its lease.")
            self._folder.remove(claim.names)  # then everything is listed again: it may have resumed
            return 0.0
        if claim.holds or silent_s > self._timing.poll_s:
            self._announce(claim, holder)
            return self._timing.poll_s
        return self._pause_s()

    def _pause_s(self) -> float:
        longest_s = min(self._timing.poll_s, self._timing.pause_s * 2.0 ** min(self._tries, 30))
        self._tries += 1
        return longest_s * random.uniform(0.1, 1.0)  # noqa: S311  # so that two do not collide again

    def _announce(self, claim: Claim, holder: Holder) -> None:
        if claim.token not in self._announced:
            self._announced.add(claim.token)
            self._say(
                f"sweep {self._sweep}: {holder} has been running it since {holder.since}, last "
                f"heartbeat {holder.alive} by its clock; waiting {self._timing.stale_s:.0f} s for another one before "
                "taking over."
            )

    def _refusal(self, holder: Holder) -> str:
        return (
            f"sweep {self._sweep} in {self._folder.storage}: {holder} has been running it since {holder.since}, last "
            f"heartbeat {holder.alive} by its clock. Wait until it ends, stop that process, or give "
            "another store with --store."
        )


@contextlib.contextmanager
def take_lease(
    store: Storage,
    sweep: str,
    *,
    say: Callable[[str], None],
    timing: Timing = TIMING,
    me: Holder | None = None,
) -> Iterator[Lease]:
    """Hold the lease of a sweep in a store while the block runs; other sweeps of the store are not affected.

    Args:
        store: Its storage. The store has its marker already: a folder with only a lease is not recognised as a store.
        sweep: The sweep's name.
        say: Receives a line about the driver that is waited for, or a lease that could not be released.
        timing: The same for all drivers of the store.
        me: The new holder; this process by default.

    Raises:
        LeaseHeldError: another driver runs the sweep: its process is alive on this machine, or it sent a heartbeat
            while it was watched.
        StoreError: the storage does not answer, or cannot be written.
    """
    folder = ClaimFolder(store.at(LEASES).at(sweep))
    taker = _Taker(folder, sweep, me or this_driver(), timing, say)
    try:
        lease = taker.take()
        lease.keep()
        yield lease
    finally:
        if taker.lease is not None:
            taker.lease.release()
