"""Our own claim: it sends heartbeats, checks that it still holds the lease, and releases it."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from orchestrator.lease.claims import Claim, ClaimFolder
from orchestrator.lease.holder import Holder
from trials.errors import StoreError

BEAT_S = 10.0
STALE_S = 60.0  # six heartbeats: storage may be unavailable for a while
POLL_S = 1.0
PAUSE_S = 0.05
EXIT_S = 10.0

# CLOCK_MONOTONIC stops while a machine sleeps, and closing a laptop's lid is the most common way to suspend a driver.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class LeaseLostError(StoreError):
    """Another driver has taken this sweep over; this one may no longer commit."""


def _now() -> float:
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True)
class Timing:
    """Intervals and clocks of a lease; `stale_s` must be the same for all drivers of a store.

    Attributes:
        beat_s: Seconds between two heartbeats.
        stale_s: Seconds without a heartbeat after which a claim is considered dead.
        poll_s: Seconds between two polls of another driver's claim.
        pause_s: Initial backoff in seconds when two drivers ask at once.
        exit_s: Maximum seconds that a release waits for the storage.
        now: A monotonic clock that keeps running while the machine sleeps.
        sleep: Waits for a number of seconds.
    """

    beat_s: float = BEAT_S
    stale_s: float = STALE_S
    poll_s: float = POLL_S
    pause_s: float = PAUSE_S
    exit_s: float = EXIT_S
    now: Callable[[], float] = _now
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        assert 0 < self.beat_s <= self.stale_s / 2, "a claim must not look dead between two heartbeats"


TIMING = Timing()


class Lease:
    """One driver's claim to a sweep, from asking to release."""

    def __init__(self, folder: ClaimFolder, me: Holder, timing: Timing, say: Callable[[str], None]) -> None:
        self._folder, self._me, self._timing, self._say = folder, me, timing, say
        self._token = uuid.uuid4().hex[:16]
        self._count = 0
        self._standing: str | None = None  # the newest object that a listing has shown
        self._confirmed_s = float("-inf")
        self._lost = ""
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="lease", daemon=True)

    @property
    def is_sure(self) -> bool:
        """Whether nobody can have taken over yet; known without asking the storage."""
        return not self._lost and self._timing.now() - self._confirmed_s < self._timing.stale_s / 2

    def check(self) -> None:
        """Return if this driver may commit. Asks the storage only if the last heartbeat is too long ago.

        Raises:
            LeaseLostError: another driver has taken over.
            StoreError: the storage does not answer.
        """
        assert not self._ending.is_set(), "checked after its release"
        if self.is_sure:
            return
        with self._lock:  # a heartbeat in progress may answer it
            if not self.is_sure and not self._lost:
                self._beat(holds=True)
            if self._lost:
                raise LeaseLostError(self._lost)

    def ask(self) -> bool:
        """Claim the sweep; whether it is ours now. If not, the claim is withdrawn.

        Raises:
            StoreError: the storage does not answer.
        """
        alone = not self._beat(holds=False)
        if alone and not self._lost:
            self._beat(holds=True)
        if alone and not self._lost:
            return True
        self._withdraw()
        return False

    def announce(self, ray: str) -> None:
        """Publish the address of this driver's Ray dashboard, from the next heartbeat on."""
        self._me = replace(self._me, ray=ray)

    def keep(self) -> None:
        """Send heartbeats from now on."""
        self._keeper.start()

    def release(self) -> None:
        """Release the lease, also one that was being asked for; waits at most `exit_s` for a storage."""
        self._ending.set()
        with contextlib.suppress(RuntimeError):  # it runs already, unless a signal came before its first heartbeat
            self._keeper.start()
        self._keeper.join(self._timing.exit_s)
        if self._keeper.is_alive():
            self._say_unreleased("it does not answer")

    def _keep(self) -> None:
        while not self._ending.wait(self._timing.beat_s):
            with contextlib.suppress(StoreError), self._lock:  # if it persists, `check` reports it
                if not self._lost:
                    self._beat(holds=True)
        try:
            self._withdraw()
        except StoreError as error:
            self._say_unreleased(str(error))

    def _say_unreleased(self, why: str) -> None:
        self._say(
            f"{self._folder.storage}: the lease could not be released ({why}). "
            f"On another machine the next launch waits {self._timing.stale_s:.0f} s for it."
        )

    def _beat(self, *, holds: bool) -> dict[str, Claim]:
        """Send a heartbeat; the claims of others after it."""
        began_s = self._timing.now()
        self._count += 1  # even if the write fails: it may take effect later
        written = self._folder.write(self._token, self._count, self._me, holds=holds)
        seen = self._folder.claims()
        mine = seen.pop(self._token, None)
        names = mine.names if mine else ()
        if {written, self._standing or written} <= set(names):
            self._standing, self._confirmed_s = written, began_s
            names = tuple(name for name in names if name < written)
        else:
            self._lost = self._loss(seen)
        with contextlib.suppress(StoreError):  # the next heartbeat or the release deletes them
            self._folder.remove(names)
        return seen

    def _loss(self, others: Mapping[str, Claim]) -> str:
        found: list[Holder | None] = []
        with contextlib.suppress(StoreError):  # it is lost, whoever took it
            found = [self._folder.holder(claim) for claim in others.values() if claim.holds]
        who = next((str(holder) for holder in found if holder), "another driver or user")
        return (
            f"{self._folder.storage}: {who} took this sweep over while this driver ({self._me}) sent no heartbeat. "
            "What was committed before is intact; the other driver runs the rest. Nothing needs to be done."
        )

    def _withdraw(self) -> None:
        mine = self._folder.claims().get(self._token)
        if mine:
            self._folder.remove(mine.names)
