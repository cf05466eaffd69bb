"""A claim of our own: it gives signs of life, knows whether it still holds, and ends."""

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
STALE_S = 60.0  # six beats; a storage that does not answer for a while is not death
POLL_S = 1.0
PAUSE_S = 0.05
EXIT_S = 10.0

# CLOCK_MONOTONIC stands still while a machine sleeps, and a laptop's lid is how most drivers are stopped for minutes.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class LeaseLostError(StoreError):
    """Another driver took this sweep over; this one may not commit any more."""


def _now() -> float:
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True)
class Timing:
    """How long everything takes; all drivers of a store must agree in `stale_s`.

    Attributes:
        beat_s: From one sign of life to the next.
        stale_s: A claim without one for so long is dead.
        poll_s: From one look at another driver's claim to the next.
        pause_s: How long two that ask at once wait at first.
        exit_s: How long the end of a lease may wait for the place.
        now: A clock that never goes back and goes on while the machine sleeps.
        sleep: Waits for so many seconds.
    """

    beat_s: float = BEAT_S
    stale_s: float = STALE_S
    poll_s: float = POLL_S
    pause_s: float = PAUSE_S
    exit_s: float = EXIT_S
    now: Callable[[], float] = _now
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        assert 0 < self.beat_s <= self.stale_s / 2, "a claim must not look dead between two beats"


TIMING = Timing()


class Lease:
    """One driver's claim to a sweep, from asking to its end."""

    def __init__(self, folder: ClaimFolder, me: Holder, timing: Timing, say: Callable[[str], None]) -> None:
        self._folder, self._me, self._timing, self._say = folder, me, timing, say
        self._token = uuid.uuid4().hex[:16]
        self._count = 0
        self._standing: str | None = None  # the newest object that a listing has shown to us
        self._confirmed_s = float("-inf")
        self._lost = ""
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="lease", daemon=True)

    @property
    def is_sure(self) -> bool:
        """Whether nobody can have taken over yet, told from memory."""
        return not self._lost and self._timing.now() - self._confirmed_s < self._timing.stale_s / 2

    def check(self) -> None:
        """Return if this driver may commit. Looks at the place only where the last beat is too long ago.

        Raises:
            LeaseLostError: another driver has taken over.
            StoreError: the storage does not answer.
        """
        assert not self._ending.is_set(), "asked after its end"
        if self.is_sure:
            return
        with self._lock:  # a beat that is under way may answer it
            if not self.is_sure and not self._lost:
                self._beat(holds=True)
            if self._lost:
                raise LeaseLostError(self._lost)

    def ask(self) -> bool:
        """Claim the sweep, and whether it is ours; if not, nothing of it stays.

        Raises:
            StoreError: the storage does not answer.
        """
        try:
            alone = not self._beat(holds=False)
            if alone and not self._lost:
                self._beat(holds=True)
        except BaseException as error:
            if not isinstance(error, StoreError):  # Ctrl-C; a storage that does not answer is not asked again
                self._withdraw()
            raise
        if alone and not self._lost:
            return True
        self._withdraw()
        return False

    def announce(self, ray: str) -> None:
        """Let those who look at the store find the dashboard of this driver's Ray, from the next beat on."""
        self._me = replace(self._me, ray=ray)

    def keep(self) -> None:
        """Give signs of life from now on."""
        self._keeper.start()

    def release(self) -> None:
        """Give the lease back; waits no longer than `exit_s` for a storage that does not answer."""
        self._ending.set()
        self._keeper.join(self._timing.exit_s)
        if self._keeper.is_alive():
            self._say_left("it does not answer")

    def _keep(self) -> None:
        while not self._ending.wait(self._timing.beat_s):
            with contextlib.suppress(StoreError), self._lock:  # `check` tells, if it lasts; else the next beat heals it
                if not self._lost:
                    self._beat(holds=True)
        try:
            self._withdraw()
        except StoreError as error:
            self._say_left(str(error))

    def _say_left(self, why: str) -> None:
        self._say(
            f"{self._folder.storage}: the lease could not be given back ({why}). "
            f"On another machine the next launch waits {self._timing.stale_s:.0f} s for it."
        )

    def _beat(self, *, holds: bool) -> dict[str, Claim]:
        """A sign of life, and the claims of others after it."""
        began_s = self._timing.now()
        self._count += 1  # also after a write that failed: it may come late
        written = self._folder.write(self._token, self._count, self._me, holds=holds)
        seen = self._folder.look()
        mine = seen.pop(self._token, None)
        names = mine.names if mine else ()
        if {written, self._standing or written} <= set(names):
            self._standing, self._confirmed_s = written, began_s
            names = tuple(name for name in names if name < written)
        else:
            self._lost = self._loss(seen)
        with contextlib.suppress(StoreError):  # the next beat or the end takes them away
            self._folder.remove(names)
        return seen

    def _loss(self, others: Mapping[str, Claim]) -> str:
        found: list[Holder | None] = []
        with contextlib.suppress(StoreError):  # it is lost, whoever it was
            found = [self._folder.holder(claim) for claim in others.values() if claim.holds]
        who = next((str(holder) for holder in found if holder), "another driver, or someone by hand,")
        return (
            f"{self._folder.storage}: {who} took this sweep over while this driver ({self._me}) gave no sign of life. "
            "What was committed before is whole; the rest is left to the other. Nothing is to be done."
        )

    def _withdraw(self) -> None:
        mine = self._folder.look().get(self._token)
        if mine:
            self._folder.remove(mine.names)
