"""Sweeps whose processes are killed at seeded moments, launched again until they end well; a JSON line a run.

python -m tests.lab.chaos --runs 20 --seed 0                       # on a Ray of three nodes
python -m tests.lab.chaos --runs 20 --cluster inline --drivers 3   # three drivers share a store, without Ray

Each is compared with a sweep that nothing happened to. Exit code 0 if every run lost and doubled nothing.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from orchestrator.extras.store_care.check import check_store
from orchestrator.store import open_store
from tests.builders import write_sweep, write_tagged_treebank
from tests.lab.chaos import compare
from tests.lab.chaos.cluster import Cluster, Inline, Local, Nodes
from tests.lab.chaos.processes import end_all, leave_on_sigterm, of_kind, send

CLUSTERS: dict[str, type[Cluster]] = {"auto": Nodes, "local": Local, "inline": Inline}
N_TRIALS, N_EPOCHS = 8, 4
MOST_LAUNCHES = 12
STUCK_S = 200.0  # without a new row, which is longer than drivers wait for one that is gone
_POLL_S, _MEND_EVERY_S = 0.1, 2.0
_SWEEP = """
name: chaos
trial:
  data: {{folder: {bank}}}
  lowercase: true
  frozen_dropout: false
  optim: {{lr: 1e-3, epochs: {epochs}, batch_size: 8}}
space:
  freeze: [none, {{strategy: first_k, depth: 2, embeddings: true}}]
seeds: {seeds}
checkpoint: {{epochs: 1}}
"""


def write_work(folder: Path, *, train: int = 200, n_trials: int = N_TRIALS) -> Path:
    """A sweep of trials of a second or two of the starter model, with a checkpoint at every epoch; its file."""
    bank = write_tagged_treebank(folder / "bank", train=train, dev=16, test=16)
    seeds = list(range(n_trials // 2))
    return write_sweep(folder / "chaos.yaml", _SWEEP.format(bank=bank, epochs=N_EPOCHS, seeds=seeds))


@dataclass(frozen=True)
class Kill:
    """A process of this kind, or the whole `machine`, is killed so many seconds after there were so many rows."""

    kind: str
    rows: int
    delay_s: float


def plan(rng: Random, kinds: Sequence[str]) -> list[Kill]:
    """One to three kills in the order of their moments. Before the first row there are seconds of start-up."""
    rows = sorted(rng.randrange(N_TRIALS * N_EPOCHS) for _ in range(rng.randint(1, 3)))
    return [Kill(rng.choice(kinds), n, round(rng.uniform(0, 6.0 if n == 0 else 1.0), 2)) for n in rows]


@dataclass
class Outcome:
    """What came of a run: `problems` is empty if nothing was lost, doubled or done again beyond an interval."""

    killed: list[str] = field(default_factory=list)
    exit_codes: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Run:
    """A sweep launched by some drivers, of which each that does not end well is launched again."""

    def __init__(self, sweep: Path, folder: Path, cluster: Cluster, kills: Sequence[Kill], n_drivers: int = 1) -> None:
        self.store = folder / "store"
        self._sweep, self._folder, self._cluster, self._kills = sweep, folder, cluster, list(kills)
        self._drivers: list[subprocess.Popen[bytes] | None] = [None] * n_drivers
        self._reached: float | None = None  # since when the next kill's rows have been there
        self._finished: dict[str, int] = {}
        self.outcome = Outcome()

    def go(self, expected: compare.Tables | None, rng: Random) -> Outcome:
        """To the end, or until it is clear that there will be none."""
        started = mended = since = time.monotonic()
        rows, left = -1, set(range(len(self._drivers)))
        try:
            while left:
                time.sleep(_POLL_S)
                for number in sorted(left):
                    left -= {number} if self._ends_well(number) else set()
                if (found := compare.count_rows(self.store)) != rows:
                    rows, since = found, time.monotonic()
                if self._is_time(rows):
                    self._kill(rng)
                elif time.monotonic() - mended > _MEND_EVERY_S:
                    self._cluster.mend()
                    mended = time.monotonic()
                if time.monotonic() - since > STUCK_S or len(self.outcome.exit_codes) > MOST_LAUNCHES:
                    self.outcome.problems.append("does not end")
                    break
        finally:
            for driver in filter(None, self._drivers):
                driver.kill()
                driver.wait()
            end_all(self._cluster.driver_folder)
        self.outcome.seconds = round(time.monotonic() - started, 1)
        self._judge(expected)
        return self.outcome

    def _ends_well(self, number: int) -> bool:
        """Whether a driver has ended with exit code 0; launched anew if it ended otherwise."""
        driver = self._drivers[number]
        if driver is not None:
            if (code := driver.poll()) is None:
                return False
            self.outcome.exit_codes.append(code)
            for trial_id, attempt in compare.finished(self.store).items():
                self._finished.setdefault(trial_id, attempt)
            self._cluster.mend()
            if code == 0:
                return True
        words = ["-m", "orchestrator.launch", "--sweep", str(self._sweep), "--store", str(self.store), "--offline"]
        with (self._folder / f"driver{number}.log").open("ab") as log:
            self._drivers[number] = subprocess.Popen(
                [*self._cluster.prefix, sys.executable, *words, "--cluster", self._cluster.name],
                cwd=self._cluster.driver_folder, env=self._cluster.environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        return False

    def _is_time(self, rows: int) -> bool:
        if not self._kills or rows < self._kills[0].rows:
            self._reached = None
            return False
        self._reached = self._reached or time.monotonic()
        return time.monotonic() - self._reached >= self._kills[0].delay_s

    def _kill(self, rng: Random) -> None:
        """The next kill; where there is no such process yet it is tried again."""
        kind = self._kills[0].kind
        victims = [] if kind == "machine" else of_kind(self._folder, kind)
        done = end_all(self._folder) > 0 if kind == "machine" else False
        if victims:
            done = send(rng.choice(victims).pid, signal.SIGKILL)
        if done:
            self.outcome.killed.append(kind)
            self._kills.pop(0)
            self._reached = None

    def _judge(self, expected: compare.Tables | None) -> None:
        """The store against that of the uninterrupted run."""
        problems, newest = self.outcome.problems, compare.attempts(self.store)
        problems += [f"{t} ran again" for t, attempt in self._finished.items() if newest.get(t, 0) > attempt]
        if (lost := compare.lost_intervals(self.store)) > 1:
            problems.append(f"{lost} evaluations of an attempt were lost")
        problems += [str(finding) for finding in check_store(self.store).findings]
        if expected is not None:
            problems += compare.compare(expected, compare.read_rows(open_store(self.store))).problems()


def endure(
    sweep: Path, folder: Path, cluster: type[Cluster], kills: Sequence[Kill], rng: Random, expected: compare.Tables,
    n_drivers: int = 1,
) -> Outcome:  # fmt: skip
    """One sweep in a folder and on a cluster of its own."""
    with cluster(folder) as nodes:
        return Run(sweep, folder, nodes, kills, n_drivers).go(expected, rng)


def undisturbed(sweep: Path, folder: Path) -> compare.Tables:
    """The tables of the sweep when nothing happens."""
    with Inline(folder) as inline:
        run = Run(sweep, folder, inline, [])
        outcome = run.go(None, Random(0))
    assert (outcome.exit_codes, outcome.problems) == ([0], [])
    return compare.tables(compare.read_rows(open_store(run.store)))


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first run, to see one again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cluster", choices=CLUSTERS, default="auto", help="three nodes, a launch's own Ray, or none")
    parser.add_argument("--drivers", type=int, default=1, help="how many share the store")
    args = parser.parse_args(argv)
    leave_on_sigterm()
    kinds = {"auto": ["driver", "worker", "raylet", "gcs", "machine"], "local": ["driver", "worker"]}
    n_ok = 0
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as name:
        sweep = write_work(Path(name))
        expected = undisturbed(sweep, Path(name) / "u")
        for number in range(args.first, args.first + args.runs):
            rng = Random(f"{args.seed} {number}")
            kills = plan(rng, kinds.get(args.cluster, ["driver"]))
            folder = Path(name) / f"o{number}"  # short: the paths of Ray's sockets are limited to 107 bytes
            outcome = endure(sweep, folder, CLUSTERS[args.cluster], kills, rng, expected, args.drivers)
            n_ok += not outcome.problems
            _say({"run": number, "kills": [vars(kill) for kill in kills], **vars(outcome)})
    _say({"runs": args.runs, "ok": n_ok})
    return int(n_ok < args.runs)


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
