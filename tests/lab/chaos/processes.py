"""The processes of one run, and no others: those that work inside its folder.

A process inherits its working directory, and Ray's workers, who overwrite their command line and what `/proc` shows of
their environment, keep it. So whatever is started from inside a run's folder is found there to its end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

DRIVERS = ("orchestrator.launch",)
HELPERS = ("IDLE", "DashboardAgent", "RuntimeEnvAgent", "SPILL", "RESTORE")  # Ray's own, by their titles


@dataclass(frozen=True)
class Process:
    """One that runs.

    Attributes:
        kind: ``driver``, ``worker`` (one that has a trial), ``raylet``, ``gcs`` or ``other``.
        folder: Where it works; every node of a cluster has a folder of its own.
    """

    pid: int
    kind: str
    title: str
    folder: Path


def inside(folder: Path) -> list[Process]:
    """All that work in a folder or below, but for this process."""
    return sorted(_found(folder), key=lambda process: process.pid)


def _found(folder: Path) -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it has ended, or it is another user's
            works_in = Path(str((entry / "cwd").readlink()).removesuffix(" (deleted)"))
            if works_in.is_relative_to(folder):
                words = [w for w in (entry / "cmdline").read_bytes().decode(errors="replace").split("\0") if w]
                yield Process(int(entry.name), _kind(words), " ".join(words).strip(), works_in)


def _kind(words: list[str]) -> str:
    if not words:
        return "other"
    if words[0].startswith("ray::"):
        return "other" if words[0].removeprefix("ray::").strip().startswith(HELPERS) else "worker"
    name = Path(words[0]).name
    if name in ("gcs_server", "raylet"):
        return {"gcs_server": "gcs"}.get(name, name)
    return "driver" if any(driver in words for driver in DRIVERS) else "other"


def of_kind(folder: Path, kind: str) -> list[Process]:
    """Those of a kind, the oldest first."""
    return [process for process in inside(folder) if process.kind == kind]


def send(pid: int, number: signal.Signals) -> bool:
    """Whether the signal found its process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def end_all(folder: Path, patience_s: float = 20.0) -> int:
    """Kill whatever works in a folder until nothing does; how many there were.

    Raises:
        RuntimeError: some would not go.
    """
    killed, deadline = set[int](), time.monotonic() + patience_s
    while found := [process for process in inside(folder) if not _is_over(process.pid)]:
        for process in found:
            send(process.pid, signal.SIGKILL)
            killed.add(process.pid)
        if time.monotonic() > deadline:
            raise RuntimeError(f"{folder}: {len(found)} processes do not go, {found[0].title!r} among them")
        time.sleep(0.05)
    return len(killed)


def _is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def leave_on_sigterm() -> None:
    """SIGTERM raises SystemExit from now on, so that everything is undone and ended."""

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one would end what ends the others
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
