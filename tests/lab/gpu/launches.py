"""Launches of the product as a person would make them: a command in a process of its own, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


@dataclass
class Launched:
    """A launch and its end.

    Attributes:
        code: Its exit code; None if its time was up.
        ended_s: Seconds from the command to the end of each trial.
        said: Both of its streams, line by line.
    """

    code: int | None = None
    seconds: float = 0.0
    ended_s: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """For a part's file."""
        first = self.ended_s[0] if self.ended_s else None
        return {
            "exit_code": self.code,
            "seconds": self.seconds,
            "first_trial_ended_s": first,
            "trials_ended": len(self.ended_s),
            "last_lines": self.said[-25:],
        }


def launch(
    *words: str, folder: Path, seconds: float, variables: Mapping[str, str], interrupt_after: int | None = None
) -> Launched:
    """`python -m orchestrator.launch`, in a folder; nothing else is set than the variables.

    Args:
        seconds: After so many it is ended, whatever it does.
        interrupt_after: Ctrl-C once so many trials have ended.
    """
    command = [sys.executable, "-m", "orchestrator.launch", *words]
    began, found, late = time.monotonic(), Launched(), threading.Event()

    def end_late() -> None:
        late.set()  # first: what is killed may be read to its end before this thread has ended
        _end(process)

    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, **variables}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        too_late = threading.Timer(seconds, end_late)
        too_late.daemon = True
        too_late.start()
        try:
            for line in process.stdout:
                found.said.append(line.rstrip("\n"))
                if is_an_end(line):
                    found.ended_s.append(time.monotonic() - began)
                    if len(found.ended_s) == interrupt_after:
                        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all of its processes
            process.wait()
        finally:
            too_late.cancel()
            _end(process)
    found.code, found.seconds = None if late.is_set() else process.returncode, time.monotonic() - began
    return found


def is_an_end(line: str) -> bool:
    """Whether a line of a launch says that a trial has ended, e.g. `3/28 completed ...`."""
    counts, _, state = line.partition(" ")
    done, slash, planned = counts.partition("/")
    return bool(slash) and done.isdigit() and planned.isdigit() and bool(state)


def rows_of(store: Path) -> list[dict[str, Any]]:
    """The rows of a store's trials, the newest attempt of each; none without a store."""
    from orchestrator.store import open_store

    if not store.exists():
        return []
    rows: list[dict[str, Any]] = open_store(store).trials().to_pylist()
    return rows


def variables_for(work: Path, stand_ins: Sequence[Path] = ()) -> dict[str, str]:
    """Where this checkout is, a cache of its own so that nothing is computed yet, and plain output."""
    before = filter(None, [os.environ.get("PYTHONPATH")])
    path = os.pathsep.join([*map(str, stand_ins), str(ROOT), *before])
    return {"PYTHONPATH": path, "PERMAFROST_CACHE": str(work / "cache"), "NO_COLOR": "1", "COLUMNS": "160"}


def _end(process: subprocess.Popen[str]) -> None:
    """End a launch and all that it started."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        process.wait()
