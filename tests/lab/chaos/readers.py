"""A store opened at random moments while it is written: does a reader ever see a torn, doubled or half-told trial?

python -m tests.lab.chaos.readers --opens 1000 --seed 0

The writer does nothing but commit and compact, thousands of times; `test_chaos` reads a sweep while it is harmed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from orchestrator.store import open_store
from tests.lab.chaos.cluster import base_environment
from tests.lab.chaos.compare import KEYS, Row, count_rows, duplicates, parts_of
from tests.lab.chaos.processes import end_all
from trials.errors import StoreError

_FIRST_ROW_S = 60.0


@dataclass
class Reader:
    """Opens a store again and again, and remembers what it has seen.

    Attributes:
        opens: How often so far.
        problems: What a reader must never see.
        most_parts: The largest number of parts that there were.
    """

    store: Path
    rng: Random
    opens: int = 0
    problems: list[str] = field(default_factory=list)
    most_parts: int = 0
    _completed: set[str] = field(default_factory=set)
    _steps: dict[str, int] = field(default_factory=dict)
    _labels: dict[str, int] = field(default_factory=dict)
    _seen: dict[tuple[object, ...], int] = field(default_factory=dict)

    def look(self) -> None:
        """Open it once, and read all tables, the predictions of one trial."""
        self.opens += 1
        self.most_parts = max(self.most_parts, len(parts_of(self.store)))
        try:
            store = open_store(self.store)
            trials = store.trials().to_pylist()
            done = [row["trial_id"] for row in trials if row["state"] == "completed"]
            one = self.rng.choice(done) if done else None
            rows = {
                "trials": trials,
                "epochs": store.epochs().to_pylist(),
                "tags": store.tags().to_pylist(),
                "predictions": store.predictions(one).to_pylist() if one else [],
            }
        except StoreError as error:
            self.problems.append(f"could not be read: {error}")
            return
        self._check(rows, set(done))

    def _check(self, rows: dict[str, list[Row]], done: set[str]) -> None:
        if n := duplicates(rows):
            self.problems.append(f"{n} rows twice")
        if gone := self._completed - done:
            self.problems.append(f"{len(gone)} completed trials no longer are")
        self._completed |= done
        self._check_whole(rows, done)
        for table, found in rows.items():
            for row in found:
                # Which row it is, and whether it has ever been seen otherwise.
                key = (table, row["attempt"], *(row[name] for name in KEYS[table]))
                if self._seen.setdefault(key, hash(repr(row))) != hash(repr(row)):
                    self.problems.append(f"{key} has changed")

    def _check_whole(self, rows: dict[str, list[Row]], done: set[str]) -> None:
        """A trial whose row is there has all its epochs and labels there: as many as any other look found."""
        steps = Counter(row["trial_id"] for row in rows["epochs"])
        labels = Counter(row["trial_id"] for row in rows["tags"])
        last = {row["trial_id"]: row["epoch"] for row in rows["epochs"]}  # in the order of steps
        for row in rows["trials"]:
            trial_id = row["trial_id"]
            if trial_id in done:
                if last.get(trial_id) != row["last_epoch"]:
                    self.problems.append(f"{trial_id}: its last epoch is not there")
                if self._steps.setdefault(trial_id, steps[trial_id]) != steps[trial_id]:
                    self.problems.append(f"{trial_id}: {steps[trial_id]} epochs, before {self._steps[trial_id]}")
                if self._labels.setdefault(trial_id, labels[trial_id]) != labels[trial_id]:
                    self.problems.append(f"{trial_id}: {labels[trial_id]} labels, before {self._labels[trial_id]}")


@contextmanager
def _writing(words: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    work = folder / "writer"
    work.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", *words], cwd=work, env=base_environment(folder), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        end_all(work)


def _look_while(process: subprocess.Popen[bytes], reader: Reader, until: int) -> None:
    """Open the store at random moments while the process runs."""
    deadline = time.monotonic() + _FIRST_ROW_S
    while process.poll() is None and reader.opens < until:
        if not count_rows(reader.store, "trials"):
            assert time.monotonic() < deadline, f"{reader.store}: no rows yet"
            time.sleep(0.05)
            continue
        time.sleep(reader.rng.expovariate(50))
        reader.look()


def of_a_busy_writer(folder: Path, opens: int, rng: Random) -> Reader:
    """Opens of a store that is committed to and compacted all the time."""
    reader = Reader(folder / "busy", rng)
    while reader.opens < opens:
        with _writing(["tests.lab.chaos.busy_writer", str(reader.store)], folder) as process:
            _look_while(process, reader, opens)
    return reader


def main(argv: list[str] | None = None) -> int:
    """The command line; prints a JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opens", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        reader = of_a_busy_writer(Path(name), args.opens, Random(args.seed))
    line = {
        "opens": reader.opens, "problems": len(reader.problems), "first": reader.problems[:5],
        "most_parts": reader.most_parts, "seconds": round(time.monotonic() - started, 1),
    }  # fmt: skip
    sys.stdout.write(json.dumps(line) + "\n")
    return int(bool(reader.problems))


if __name__ == "__main__":
    raise SystemExit(main())
