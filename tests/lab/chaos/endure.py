"""One run under harm: a plan of seeded moments, the driver launched until it ends well, and the verdict.

What an operator would do is done: dead nodes are started again, spoiled files are repaired, and the same command is
given until its exit code is 0.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.lab.chaos.cluster import Cluster
from tests.lab.chaos.events import HARMS, WHOLE, Ongoing, World
from tests.lab.chaos.processes import end_all
from tests.lab.chaos.subject import N_ROWS, Verdict

MOST_LAUNCHES = 12
STUCK_S = 90.0  # no row for so long, with nothing wrong any more: given up and killed
# The same once a wall clock was moved. Ray's processes take their timers from it, and after it went back may wait five
# minutes until they look at it again (Boost.Asio's longest wait); in that time no node is given anything to do.
STUCK_AFTER_CLOCK_S = 330.0
_POLL_S, _MEND_EVERY_S = 0.1, 2.0


@dataclass(frozen=True)
class Moment:
    """When a harm is done: so many seconds after there were so many rows, or after a launch where there are none."""

    harm: str
    rows: int
    delay_s: float


def plan(rng: Random, harms: Sequence[str], most: int = 3, n_rows: int = N_ROWS) -> list[Moment]:
    """One to `most` harms, of different kinds, in the order of their moments."""
    chosen = rng.sample(list(harms), min(len(harms), rng.randint(1, most)))
    rows = sorted(rng.randrange(n_rows) for _ in chosen)
    # Before the first row there are seconds of start-up, in which things can go wrong as well.
    return [
        Moment(harm, n, round(rng.uniform(0, 6.0 if n == 0 else 1.0), 2)) for harm, n in zip(chosen, rows, strict=True)
    ]


@dataclass
class Told:
    """What happened in a run.

    Attributes:
        repairs: What was done about spoiled files.
        not_done: Harms whose moment did not come, or that found no victim.
        stuck: Launches that did nothing more and had to be killed.
        gave_up: Whether no launch ended well.
        broke: What went wrong in this suite itself.
    """

    harms: list[str] = field(default_factory=list)
    exit_codes: list[int] = field(default_factory=list)
    launch_s: list[float] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    not_done: list[str] = field(default_factory=list)
    mended_nodes: int = 0
    stuck: int = 0
    gave_up: bool = False
    broke: str | None = None
    seconds: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)
    log_tail: list[str] = field(default_factory=list)


class Endurance:
    """A run under way."""

    def __init__(self, world: World, moments: Sequence[Moment]) -> None:
        self._world, self._subject, self._cluster = world, world.subject, world.cluster
        self._moments = list(moments)
        self._ongoing: tuple[Ongoing, float] | None = None
        self._reached: float | None = None  # since when the next moment's rows have been there
        self._mended = time.monotonic()
        self.told = Told()

    def go(self) -> Told:
        """To the end, or until it is clear that there will be none."""
        started = time.monotonic()
        while not self._launch_once():
            if len(self.told.exit_codes) >= MOST_LAUNCHES:
                self.told.gave_up = True
                break
        self.told.not_done = [moment.harm for moment in self._moments]
        self.told.seconds = round(time.monotonic() - started, 1)
        self.told.verdict = self._subject.judge()
        return self.told

    def _launch_once(self) -> bool:
        """Whether it ended well and nothing needed repair afterwards."""
        driver, started = Driver(self._subject.command(self._cluster.name), self._cluster), time.monotonic()
        try:
            code = self._watch(driver)
        finally:
            driver.end()
            self._undo()
        self.told.exit_codes.append(code)
        self.told.launch_s.append(round(time.monotonic() - started, 1))
        self.told.log_tail = driver.lines[-12:]
        self._subject.interrupted()
        repairs = self._subject.heal()
        self.told.repairs += repairs
        self._mend()
        return code == 0 and not repairs

    def _watch(self, driver: Driver) -> int:
        launched, rows, since = time.monotonic(), -1, time.monotonic()
        while (code := driver.process.poll()) is None:
            time.sleep(_POLL_S)
            found = self._subject.n_rows()
            if found != rows or self._ongoing:
                rows, since = found, time.monotonic()
            if time.monotonic() - since > self._patience():
                self.told.stuck += 1
                return -1
            if self._ongoing:
                self._undo_when_due()
            elif self._is_time(rows, launched):
                self._do_harm()
            elif time.monotonic() - self._mended > _MEND_EVERY_S:
                self._mend()
        return code

    def _patience(self) -> float:
        moved = any(harm.startswith("clock_jumped") for harm in self.told.harms)
        return STUCK_AFTER_CLOCK_S if moved else STUCK_S

    def _is_time(self, rows: int, launched: float) -> bool:
        if not self._moments or rows < self._moments[0].rows:
            self._reached = None
            return False
        if self._reached is None:
            self._reached = max(time.monotonic(), launched)
        return time.monotonic() - self._reached >= self._moments[0].delay_s

    def _do_harm(self) -> None:
        ongoing = (HARMS | WHOLE)[self._moments[0].harm](self._world)
        if ongoing is not None:
            self.told.harms.append(f"{self._moments.pop(0).harm}: {ongoing.what}")
            self._ongoing, self._reached = (ongoing, time.monotonic()), None

    def _undo_when_due(self) -> None:
        assert self._ongoing
        if time.monotonic() - self._ongoing[1] >= self._ongoing[0].seconds:
            self._undo()

    def _undo(self) -> None:
        ongoing, self._ongoing = self._ongoing, None
        if ongoing:
            ongoing[0].undo()

    def _mend(self) -> None:
        self.told.mended_nodes += len(self._cluster.mend())
        self._mended = time.monotonic()


class Driver:
    """One launch.

    Attributes:
        lines: What it has said so far.
    """

    def __init__(self, command: Sequence[str], cluster: Cluster) -> None:
        self.lines: list[str] = []
        self._folder = cluster.driver_folder
        self.process = subprocess.Popen(
            [*cluster.prefix, *command], cwd=self._folder, env=cluster.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        # Through a pipe, as a driver whose files may not grow must not be hurt by its own log.
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as stream:
            self.lines += (line.rstrip() for line in stream if line.strip())

    def end(self) -> None:
        """Kill it if it runs, and whatever of its own is left."""
        self.process.kill()
        self.process.wait()
        end_all(self._folder)
        self._reading.join(5)


def as_json(told: Told, *, ok: bool) -> dict[str, Any]:
    """A line of the report; what a driver said last only where something went wrong."""
    values = {**vars(told), "verdict": vars(told.verdict), "ok": ok}
    return {name: value for name, value in values.items() if name != "log_tail" or not ok}


def is_ok(told: Told) -> bool:
    """Whether the run kept what we promise. A full disk takes checkpoints too, so then more than one may be lost."""
    full = any(harm.startswith("disk_full") for harm in told.harms)
    return not (told.gave_up or told.stuck or told.broke) and told.verdict.ok(most_lost=None if full else 1)


def summary(found: Sequence[tuple[Told, bool]]) -> dict[str, Any]:
    """Over all runs."""
    verdicts = [told.verdict for told, _ in found]
    counted = ("finished_again", "missing", "duplicate", "different", "surplus", "undetected")
    done = Counter(harm.partition(":")[0] for told, _ in found for harm in told.harms)
    return {
        "runs": len(found),
        "ok": sum(ok for _, ok in found),
        **{name: sum(getattr(verdict, name) for verdict in verdicts) for name in counted},
        "lost_intervals_at_most": max((verdict.lost_intervals for verdict in verdicts), default=0),
        "unsound_runs": sum(bool(verdict.unsound) for verdict in verdicts),
        "stuck": sum(told.stuck for told, _ in found),
        "never_ended": sum(told.gave_up for told, _ in found),
        "launches": sum(len(told.exit_codes) for told, _ in found),
        "exit_codes": dict(Counter(str(code) for told, _ in found for code in told.exit_codes)),
        "harms": dict(sorted(done.items())),
        "harms_not_done": sum(len(told.not_done) for told, _ in found),
        "seconds_a_run": round(statistics.median(told.seconds for told, _ in found), 1) if found else None,
    }


def say(out: Path | None, line: dict[str, Any]) -> None:
    """A line of the report, on the terminal and in a file."""
    text = json.dumps(line, default=str)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
