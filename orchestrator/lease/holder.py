"""Who claims a sweep: a driver's process, and whether it still lives."""

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
    """What can be told of a process from here."""

    HERE = "it lives"
    GONE = "it does not live any more"
    UNKNOWN = "it cannot be told"


@dataclass(frozen=True)
class Holder:
    """A driver's process, and when it wrote.

    Attributes:
        host, user, pid: As `ps` there shows them.
        started: Clock ticks from the boot to its start, which a later process of the same pid does not share.
        system: The boot and the namespace in which the pid counts; empty where the system does not say.
        since, alive: When it asked first and when it wrote last, by its own clock: for people, never compared.
        ray: Address of its Ray's dashboard; empty where it has none, or not yet.
    """

    host: str
    user: str
    pid: int
    started: str
    system: str
    since: str
    alive: str
    ray: str = ""

    def __post_init__(self) -> None:
        if type(self.pid) is not int or not 0 < self.pid < 2**31:
            raise ValueError(f"pid {self.pid!r}: must be a process's number")

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (process {self.pid})"

    def presence(self, me: Holder) -> Presence:
        """Whether the process lives, as far as `me`, of this process, can see."""
        if not self.system or (self.host, self.system) != (me.host, me.system):
            return Presence.UNKNOWN
        try:
            os.kill(self.pid, 0)  # asks of processes that /proc may hide from this user
        except ProcessLookupError:
            return Presence.GONE
        except PermissionError:
            pass
        state, started = _state_and_start(self.pid)
        if not started:
            return Presence.UNKNOWN
        # A killed process whose parent has not asked for it stays as a zombie: it writes no more.
        return Presence.HERE if started == self.started and state not in "ZX" else Presence.GONE

    def as_json(self) -> bytes:
        """With the present time as that of its last sign of life."""
        return (json.dumps(asdict(replace(self, alive=_utc_now())), indent=1) + "\n").encode()


def this_driver() -> Holder:
    """The holder that this process is."""
    now, (_, started) = _utc_now(), _state_and_start(os.getpid())
    return Holder(socket.gethostname(), _user(), os.getpid(), started, _system(), now, now)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return str(os.getuid())


def _utc_now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime(ALIVE_FORMAT)


def _system() -> str:
    """Containers of one machine share its boot and may share its name, but not their pids."""
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
