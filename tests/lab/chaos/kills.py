"""Kill the driver with SIGKILL after its first finished trial, launch again, and compare with the undisturbed run.

python -m tests.lab.chaos.kills --runs 25 --cluster inline
python -m tests.lab.chaos.kills --runs 25 --cluster local

Prints a JSON line a run and the sums as the last one. Exit code 0 if no run lost, doubled or changed a row, or repeated
a finished trial.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from random import Random

from orchestrator.store import open_store
from tests.lab.chaos import compare
from tests.lab.chaos.cluster import Local
from tests.lab.chaos.endure import Driver, say
from tests.lab.chaos.ours import Ours
from tests.lab.chaos.processes import end_all
from tests.lab.chaos.subject import Verdict, write_work

SUMS = ("finished_again", "missing", "duplicate", "different", "surplus", "undetected")
_POLL_S, _LAUNCH_S = 0.02, 300.0


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--cluster", choices=("inline", "local"), default="inline")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    base, rng, verdicts = Path(tempfile.mkdtemp(prefix="kills-")), Random(args.seed), list[Verdict]()
    try:
        sweep = write_work(base, train=80, epochs=2, seeds=3)
        expected, span_s = undisturbed(args.cluster, sweep, base / "u")
        for number in range(args.runs):
            delay_s = rng.uniform(0, 0.9 * span_s)
            verdict, finished = killed_once(args.cluster, sweep, base / f"k{number}", expected, delay_s)
            verdicts.append(verdict)
            say(None, {"run": number, "delay_s": round(delay_s, 2), "finished": finished, **vars(verdict)})
            shutil.rmtree(base / f"k{number}", ignore_errors=True)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    sums = {name: sum(getattr(verdict, name) for verdict in verdicts) for name in SUMS}
    ok = sum(verdict.ok(most_lost=None) for verdict in verdicts)
    say(None, {"cluster": args.cluster, "runs": len(verdicts), "ok": ok, **sums})
    return int(ok < len(verdicts))


def undisturbed(cluster: str, sweep: Path, folder: Path) -> tuple[compare.Tables, float]:
    """The rows of the sweep when nothing happens, and the seconds from its first finished trial to its end."""
    with Local(folder) as nodes:
        subject = Ours(sweep, folder, folder, None)
        driver = Driver(subject.command(cluster), nodes)
        try:
            _wait_for_first(driver, subject)
            began = time.monotonic()
            assert driver.process.wait(_LAUNCH_S) == 0, driver.lines[-12:]
            return compare.tables(compare.read_rows(open_store(subject.store))), time.monotonic() - began
        finally:
            driver.end()


def killed_once(
    cluster: str, sweep: Path, folder: Path, expected: compare.Tables, delay_s: float
) -> tuple[Verdict, int]:
    """A launch that is killed so many seconds after its first finished trial, and a second one: the verdict on both.

    Returns also the number of trials that were finished when it was killed. A launch that ends before that is repeated
    with half the delay.
    """
    with Local(folder) as nodes:
        subject = Ours(sweep, folder, folder, expected)
        driver = Driver(subject.command(cluster), nodes)
        _wait_for_first(driver, subject)
        time.sleep(delay_s)
        is_killed = driver.process.poll() is None
        driver.end()
        if is_killed:
            end_all(folder)  # what is left of its Ray
            subject.interrupted()
            finished = len(compare.finished(subject.store))
            again = Driver(subject.command(cluster), nodes)
            try:
                assert again.process.wait(_LAUNCH_S) == 0, again.lines[-12:]
            finally:
                again.end()
            return subject.judge(), finished
    shutil.rmtree(folder)
    return killed_once(cluster, sweep, folder, expected, delay_s / 2)


def _wait_for_first(driver: Driver, subject: Ours) -> None:
    deadline = time.monotonic() + _LAUNCH_S
    while not compare.finished(subject.store):
        assert driver.process.poll() is None, driver.lines[-12:]
        assert time.monotonic() < deadline, driver.lines[-12:]
        time.sleep(_POLL_S)


if __name__ == "__main__":
    raise SystemExit(main())
