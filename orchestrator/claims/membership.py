"""Our own presence in a store: it sends heartbeats, checks that nobody has removed it, and leaves."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace

from orchestrator.claims.holder import Holder
from orchestrator.claims.roster import TIMING, Member, Mode, Roster, Timing
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
    """

    def __init__(
        self, roster: Roster, me: Holder, timing: Timing, say: Callable[[str], None], check_store: Callable[[], None]
    ) -> None:
        """`check_store` raises StoreError if the store that it is present in is gone; a write would make it again."""
        self.roster, self._me, self.timing, self._say, self._check_store = roster, me, timing, say, check_store
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
        self._check_store()
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
