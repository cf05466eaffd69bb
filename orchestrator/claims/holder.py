"""The process that works on a store, and whether it is still alive."""

from __future__ import annotations

import getpass
import json
import os
import socket
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

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
