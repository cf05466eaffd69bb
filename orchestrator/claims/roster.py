"""The processes that are present in a store, as one of them watches them.

A presence is a sequence of objects `<token>-<count>-<mode>.json` of one process: each heartbeat writes the next one and
deletes the previous one, because objects never change. A listing is enough to see who is present and who has moved; an
object is read only to find out whose it is.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Literal

from orchestrator.storage.storage import Storage
from trials.errors import StoreError

# Intervals and clocks of drivers that share a store.

BEAT_S = 10.0
STALE_S = 60.0  # six heartbeats: storage may be unavailable for a while
POLL_S = 1.0
PAUSE_S = 0.05
EXIT_S = 10.0

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


# The process that works on a store, and whether it is still alive.

_PROC = Path("/proc")
ALIVE_FORMAT = "%Y-%m-%d %H:%M:%S UTC"


class Presence(Enum):
    """Whether a process is alive, as seen from this one."""

    HERE = "alive"
    GONE = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Holder:
    """A process that works on a store: the driver of a sweep, or a command that needs the store for itself.

    Attributes:
        host, user, pid: As `ps` shows them there.
        started: Clock ticks from boot to its start, which tells it from a later process of the same pid.
        system: The boot id and pid namespace in which the pid is valid; empty if unknown.
        since, alive: Times of its start and last heartbeat by its own clock: for display, never compared.
        ray: Address of its Ray dashboard; empty if it has none, or not yet.
        sweep: The sweep that it runs; empty for a command.
        likely, most: Shares of the work not begun that a search is likely to run (None: unknown), and that it may.
    """

    host: str
    user: str
    pid: int
    started: str
    system: str
    since: str
    alive: str
    ray: str = ""
    sweep: str = ""
    likely: float | None = 1.0
    most: float = 1.0

    def __post_init__(self) -> None:
        texts = (self.host, self.user, self.started, self.system, self.since, self.alive, self.ray, self.sweep)
        if not all(type(text) is str for text in texts):
            raise ValueError("all but its pid and shares must be text")
        if type(self.pid) is not int or not 0 < self.pid < 2**31:
            raise ValueError(f"pid {self.pid!r}: must be a process id")
        if not 0 <= (1.0 if self.likely is None else self.likely) <= 1 or not 0 <= self.most <= 1:
            raise ValueError(f"likely {self.likely!r}, most {self.most!r}: must be shares")

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (process {self.pid})"

    @property
    def doing(self) -> str:
        """What it does, after its name."""
        return f"runs sweep {self.sweep}" if self.sweep else "maintains the store"

    @property
    def since_unix_s(self) -> float | None:
        """When it began, in Unix seconds by its own clock; None if that is not a time."""
        try:
            return datetime.strptime(self.since, ALIVE_FORMAT).replace(tzinfo=UTC).timestamp()
        except (ValueError, TypeError):
            return None

    def presence(self, me: Holder) -> Presence:
        """Whether the process is alive, as far as `me` (this process) can see."""
        if not self.system or (self.host, self.system) != (me.host, me.system):
            return Presence.UNKNOWN
        try:
            os.kill(self.pid, 0)  # also works for processes that /proc hides from this user
        except ProcessLookupError:
            return Presence.GONE
        except PermissionError:
            pass
        state, started = _state_and_start(self.pid)
        if not started:
            return Presence.UNKNOWN
        # A killed process that its parent has not waited for remains as a zombie: it writes nothing any more.
        return Presence.HERE if started == self.started and state not in "ZX" else Presence.GONE

    def as_json(self) -> bytes:
        """The content of its presence, with the current time as that of the last heartbeat."""
        return (json.dumps(asdict(replace(self, alive=_utc_now())), indent=1) + "\n").encode()


def this_process(sweep: str = "") -> Holder:
    """The process that calls this, as the driver of a sweep or as a command."""
    now, (_, started) = _utc_now(), _state_and_start(os.getpid())
    return Holder(socket.gethostname(), _user(), os.getpid(), started, _system(), now, now, sweep=sweep)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user id without a name
        return str(os.getuid())


def _utc_now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime(ALIVE_FORMAT)


def _system() -> str:
    """Containers on one machine share its boot id and may share its name, but not their pids."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _state_and_start(pid: int) -> tuple[str, str]:
    """Fields 3 and 22 of `/proc/<pid>/stat` (proc(5)); empty where they cannot be read."""
    try:
        line = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    fields = line.rpartition(")")[2].split()  # the second one is a name that may hold spaces and brackets
    return fields[0], fields[19]


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
            listed = self.storage.files("0", "g")
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
