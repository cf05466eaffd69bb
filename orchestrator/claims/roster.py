"""The processes that are present in a store, as one of them watches them.

A presence is a sequence of objects `<token>-<count>-<mode>.json` of one process: each heartbeat writes the next one and
deletes the previous one, because objects never change. A listing is enough to see who is present and who has moved; an
object is read only to find out whose it is.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from orchestrator.claims.holder import Holder, Presence
from orchestrator.storage.storage import Storage
from trials.errors import StoreError

BEAT_S = 10.0
STALE_S = 60.0  # six heartbeats: storage may be unavailable for a while
POLL_S = 1.0
PAUSE_S = 0.05  # doubled at each try, so that two that ask at once part
EXIT_S = 10.0  # a storage that is down must not hold up who pressed Ctrl-C

# CLOCK_MONOTONIC stops while a machine sleeps, and closing a laptop's lid is the most common way to suspend a driver.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _now() -> float:
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True)
class Timing:
    """Intervals and clocks; `stale_s` must be the same for all drivers of a store.

    Attributes:
        beat_s: Seconds between two heartbeats.
        stale_s: Seconds without a heartbeat after which a driver counts as dead.
        poll_s: Seconds between two looks at the others.
        pause_s: Initial backoff in seconds when two ask at once.
        exit_s: Maximum seconds that leaving waits for the storage.
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
        assert 0 < self.beat_s <= self.stale_s / 2, "a driver must not look dead between two heartbeats"


TIMING = Timing()


DRIVERS = "drivers"  # the folder
Mode = Literal["asks", "shares", "alone"]
_NAME = re.compile(r"([0-9a-f]{16})-(\d{8})-(asks|shares|alone)\.json")


@dataclass(frozen=True)
class Member:
    """A process, as a listing shows it.

    Attributes:
        token: Identifies it.
        names: Its objects, oldest first.
    """

    token: str
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of its newest object."""
        return int(self.names[-1].split("-")[1])

    @property
    def mode(self) -> str:
        """`shares` the store with others, has it `alone`, or `asks` to."""
        return self.names[-1].split("-")[2].removesuffix(".json")


class Roster:
    """`<store>/drivers`, watched by one process.

    Attributes:
        storage: Where it is stored.
        moved: The tokens of those that sent a heartbeat while they were watched.
    """

    def __init__(self, store: Storage, me: Holder, timing: Timing, say: Callable[[str], None]) -> None:
        self.storage = store.at(DRIVERS)
        self._me, self._timing, self._say = me, timing, say
        self._polled_s = float("inf")
        self._counts: dict[str, int] = {}
        self._silent_s: dict[str, float] = {}
        self._holders: dict[str, Holder | None] = {}
        self.moved: set[str] = set()

    def members(self) -> dict[str, Member]:
        """All that are listed, by token.

        Raises:
            StoreError: the storage cannot be read.
        """
        names: dict[str, list[str]] = {}
        try:
            listed = self.storage.files("0", "g")  # tokens are hexadecimal
        except OSError as error:
            raise StoreError(f"{self.storage}: cannot be read ({error}).") from error
        for name in sorted(listed):
            if match := _NAME.fullmatch(name):
                names.setdefault(match[1], []).append(name)
        return {token: Member(token, tuple(of_one)) for token, of_one in names.items()}

    def alive(self, *, but: str = "") -> dict[str, Member]:
        """All but `but` (one's own token) that may be alive, by token; those that are dead are removed first.

        Raises:
            StoreError: the storage cannot be read or written.
        """
        while True:
            began_s = self._timing.now()
            seen = self.members()
            self._watch(seen, began_s)
            seen.pop(but, None)
            dead = [member for member in seen.values() if self._is_dead(member)]
            if not dead:
                return seen
            for member in dead:  # then everything is listed again: it may have resumed
                self.remove(member.names)

    def holder(self, member: Member) -> Holder | None:
        """The process; None if its newest object no longer exists, or cannot be understood.

        Raises:
            StoreError: the object cannot be read.
        """
        try:
            return decoded(self.storage.read(member.names[-1]))
        except (FileNotFoundError, ValueError):
            return None
        except OSError as error:
            raise StoreError(f"{self.storage}/{member.names[-1]}: cannot be read ({error}).") from error

    def silent_s(self, member: Member) -> float:
        """Seconds for which it was watched without a heartbeat."""
        return self._silent_s[member.token]

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects.

        Raises:
            StoreError: one cannot be deleted.
        """
        try:
            for name in names:
                self.storage.delete(name)
        except OSError as error:
            raise StoreError(f"{self.storage}: {name} cannot be deleted ({error}). Delete it by hand.") from error

    def _watch(self, seen: Mapping[str, Member], began_s: float) -> None:
        """Polls that hung and times when we slept do not count as silence."""
        gap_s = max(0.0, min(began_s - self._polled_s, 2 * self._timing.poll_s))
        for token, member in seen.items():
            same = self._counts.get(token) == member.count
            self._silent_s[token] = self._silent_s[token] + gap_s if same else 0.0
            if not same and token in self._counts:
                self.moved.add(token)
            self._counts[token] = member.count
        self._polled_s = self._timing.now()

    def _is_dead(self, member: Member) -> bool:
        if member.token not in self._holders:  # whose a token is never changes
            self._holders[member.token] = self.holder(member)
        holder, silent_s = self._holders[member.token], self._silent_s[member.token]
        if holder is not None and holder.presence(self._me) is Presence.GONE:
            self._say(f"{holder} has ended; whatever it was running goes on here or with another driver.")
        elif silent_s >= self._timing.stale_s:
            self._say(f"{holder or 'a driver'} sent no heartbeat for {silent_s:.0f} s and counts as ended.")
        else:
            return False
        return True


def decoded(content: bytes) -> Holder:
    """The process that an object of its presence names. Raises ValueError: it names none."""
    try:
        return Holder(**json.loads(content.decode("utf-8")))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
