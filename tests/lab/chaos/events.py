"""The harms, one small function a kind. Each finds its victim, does its harm and says how and when it is undone.

A harm that finds no victim at its moment returns None and is tried again at the next one.
"""

from __future__ import annotations

import contextlib
import errno
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from tests.lab.chaos.cluster import NOTICED_S, Cluster, Nodes
from tests.lab.chaos.ours import Ours
from tests.lab.chaos.processes import Process, end_all, inside, of_kind, send
from tests.lab.chaos.wall_clock import WallClock

STOPPED_S = 10.0
_CHUNK = bytes(1 << 20)


def _nothing() -> None:
    """What is killed is not undone: the run mends its cluster and launches again."""


@dataclass(frozen=True)
class Ongoing:
    """A harm that was done.

    Attributes:
        what: To whom.
        seconds: After so many it is undone; no other harm is done until then.
    """

    what: str
    seconds: float = 0.0
    undo: Callable[[], object] = _nothing


@dataclass(frozen=True)
class World:
    """Where harm is done.

    Attributes:
        folder: Of the run; its processes all work in it.
        disk: What the results lie on.
        own_disk: Whether that is a file system of its own.
        clock: The wall clock of its processes, where it can be moved.
    """

    folder: Path
    disk: Path
    own_disk: bool
    cluster: Cluster
    subject: Ours
    rng: Random
    clock: WallClock | None = None


Harm = Callable[[World], Ongoing | None]


def _victim(world: World, kind: str) -> Process | None:
    found = of_kind(world.folder, kind)
    return world.rng.choice(found) if found else None


def _signalled(kind: str, number: signal.Signals, world: World) -> Ongoing | None:
    victim = _victim(world, kind)
    if victim is None or not send(victim.pid, number):
        return None
    # Sometimes the cluster is mended at once, sometimes only when the loss was noticed.
    pause = world.rng.choice([1.0, NOTICED_S + 5]) if kind in ("raylet", "gcs") else 0.0
    return Ongoing(f"{_name(victim)} {number.name}", pause)


def _stopped(kind: str, seconds: float, world: World) -> Ongoing | None:
    victim = _victim(world, kind)
    if victim is None or not send(victim.pid, signal.SIGSTOP):
        return None
    return Ongoing(f"{_name(victim)} SIGSTOP", seconds, lambda: send(victim.pid, signal.SIGCONT))


def _name(victim: Process) -> str:
    return f"{victim.folder.name}/{victim.kind}"


def machine_killed(world: World) -> Ongoing | None:
    """Everything at once, as when a machine goes down: drivers, nodes, workers."""
    found = inside(world.folder)
    return Ongoing(f"all {end_all(world.folder)} processes SIGKILL") if found else None


def disk_full(world: World) -> Ongoing | None:
    """Nothing more fits on the disk of the results for a while; without a disk of its own: into the driver's files."""
    if not world.own_disk:
        return _no_more_bytes(world)
    return Ongoing("disk full", world.rng.uniform(2, 8), filled(world.disk).unlink)


def filled(disk: Path) -> Path:
    """The file that takes what was free of a disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = len(_CHUNK)
        while size:  # down to the last page
            try:
                file.write(_CHUNK[:size])
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2
    return ballast


def _no_more_bytes(world: World) -> Ongoing | None:
    victim = _victim(world, "driver")
    if victim is None:
        return None
    return Ongoing("driver may write no more bytes", world.rng.uniform(2, 8), no_more_bytes(victim.pid))


def no_more_bytes(pid: int) -> Callable[[], object]:
    """Let a process write to no file any more; what undoes that."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)

    def undo() -> None:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))

    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    return undo


def part_truncated(world: World) -> Ongoing | None:
    """A file of the results loses its end."""
    found = world.subject.parts()
    if not found:
        return None
    part = world.rng.choice(found)
    size = part.stat().st_size
    length = world.rng.randrange(size)
    world.subject.spoil(part, length)
    return Ongoing(f"{part.parent.name}/{part.name} cut from {size} to {length} bytes")


def byte_flipped(world: World) -> Ongoing | None:
    """One bit of one byte of a file of the results turns over."""
    found = world.subject.parts()
    if not found:
        return None
    part = world.rng.choice(found)
    content = part.read_bytes()
    place = world.rng.randrange(len(content))
    world.subject.spoil(part, {place: bytes([content[place] ^ 1 << world.rng.randrange(8)])})
    return Ongoing(f"{part.parent.name}/{part.name} byte {place} of {len(content)}")


def clock_jumped(world: World) -> Ongoing | None:
    """The wall clock of all processes is set an hour wrong, and after a while right again."""
    if world.clock is None:
        return None
    clock, seconds = world.clock, world.rng.choice([-3600, 3600])
    clock.move(seconds)
    return Ongoing(f"wall clock {seconds:+} s", world.rng.uniform(3, 8), lambda: clock.move(0))


def network_cut(world: World) -> Ongoing | None:
    """A worker node hears nobody, for shorter or longer than it takes to be given up.

    Where no networks of their own are to be had all of the node's processes stand still, which looks alike from afar.
    """
    nodes, node = world.cluster, world.rng.choice([1, 2])
    if not isinstance(nodes, Nodes):
        return None
    seconds = world.rng.choice([NOTICED_S / 3, 2 * NOTICED_S])
    if nodes.isolated:
        nodes.cut(node)
        return Ongoing(f"node{node} cut off", seconds, lambda: nodes.join(node))
    stopped = [process.pid for process in inside(nodes.node_folder(node)) if send(process.pid, signal.SIGSTOP)]
    return Ongoing(f"node{node} stands still", seconds, lambda: [send(pid, signal.SIGCONT) for pid in stopped])


HARMS: dict[str, Harm] = {
    **{f"{kind}_killed": partial(_signalled, kind, signal.SIGKILL) for kind in ("driver", "worker", "raylet", "gcs")},
    **{f"{kind}_asked_to_end": partial(_signalled, kind, signal.SIGTERM)
       for kind in ("driver", "worker", "raylet", "gcs")},
    **{f"{kind}_stopped": partial(_stopped, kind, STOPPED_S) for kind in ("driver", "worker", "raylet", "gcs")},
    "disk_full": disk_full,
    "part_truncated": part_truncated,
    "byte_flipped": byte_flipped,
    "clock_jumped": clock_jumped,
    "network_cut": network_cut,
}  # fmt: skip
# Not drawn among the others, as nothing is left for a second harm.
WHOLE: dict[str, Harm] = {"machine_killed": machine_killed}


def can_be_done(name: str, cluster: type[Cluster], *, clock: bool) -> bool:
    """Whether this machine and this kind of cluster allow a harm."""
    if name == "network_cut":
        return cluster is Nodes
    return clock or name != "clock_jumped"
