"""A day of a sweep in one driver, in minutes: thousands of trials that do nothing, every row a commit of its own.

python -m tests.lab.chaos.day --trials 5000 --out day.json

In a day of 5,000 trials one ends every 17 seconds, and evaluations are seconds apart, so nearly each is committed by
itself: here the recorder is told to commit at once. Written down on the way: memory of the driver and of Ray's head,
open files and threads of the driver, and how many files lie in the store, in Tune's folder and in Ray's.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.lab.chaos.events import disk_use
from tests.lab.chaos.processes import end_all, of_kind

SAMPLES = 40
EPOCHS = 3
Sample = dict[str, float]


def sample(n_ended: int, folder: Path, started: float) -> Sample:
    """What the driver, which is this process, and its folders take now."""
    pid = os.getpid()
    return {
        "trials": n_ended,
        "seconds": round(time.monotonic() - started, 1),
        "driver_mb": memory_mb(pid),
        "gcs_mb": sum(memory_mb(process.pid) for process in of_kind(folder, "gcs")),
        "raylet_mb": sum(memory_mb(process.pid) for process in of_kind(folder, "raylet")),
        "open_files": sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
        "threads": sum(1 for _ in Path(f"/proc/{pid}/task").iterdir()),
        "store_files": disk_use(folder / "store")[0],
        "tune_files": disk_use(folder / "tmp")[0],
        "ray_files": disk_use(folder / "ray")[0],
        "all_mb": round(disk_use(folder)[1] / 1e6, 1),
    }


def memory_mb(pid: int) -> float:
    """Resident memory of a process, 0 of one that is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0.0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def growth(samples: Sequence[Sample], name: str) -> float:
    """What a figure grows by in a thousand trials, after the first quarter: a least-squares slope."""
    late = [s for s in samples if s["trials"] >= samples[-1]["trials"] / 4]
    mean_x = sum(s["trials"] for s in late) / len(late)
    mean_y = sum(s[name] for s in late) / len(late)
    spread = sum((s["trials"] - mean_x) ** 2 for s in late)
    slope = sum((s["trials"] - mean_x) * (s[name] - mean_y) for s in late) / spread if spread else 0.0
    return round(1000 * slope, 2)


def verdict(samples: Sequence[Sample]) -> dict[str, Any]:
    """Growth of each figure, and what is promised: memory flat, files bounded, no more open ones."""
    grows = {name: growth(samples, name) for name in samples[-1] if name not in ("trials", "seconds")}
    files = [s["store_files"] + s["tune_files"] + s["ray_files"] for s in samples]
    opened = [s["open_files"] for s in samples]
    quarter = len(samples) // 4
    return {
        "grows_in_1000_trials": grows,
        "memory_flat": grows["driver_mb"] <= 0.02 * samples[-1]["driver_mb"],  # at most 2 % in a thousand trials
        # Workers that are replaced leave logs, and a store has some parts between two compactions.
        "files_bounded": max(files[quarter:]) <= 2 * max(files[: quarter + 1]),
        "open_files_flat": max(opened[quarter:]) <= max(opened[: quarter + 1]) + 4,
        "most_files": max(files),
    }


def main(argv: list[str] | None = None) -> int:
    """The command line; exit code 0 if all three promises are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    out = args.out.resolve() if args.out else None
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        os.environ |= {"TMPDIR": str(folder / "tmp"), "RAY_TMPDIR": str(folder / "ray"), "RAY_AUTH_MODE": "token"}
        tempfile.tempdir = None  # so that the new one is found
        os.chdir(folder)  # Ray's processes are known by where they work
        try:
            samples, states = _run(args.trials, folder)
        finally:
            os.chdir("/")
            end_all(folder)
    found = {"trials": args.trials, "states": states, **verdict(samples), "samples": samples}
    if out:
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(found) + "\n")
    return int(not (found["memory_flat"] and found["files_bounded"] and found["open_files_flat"]))


def _run(n: int, folder: Path) -> tuple[list[Sample], dict[str, int]]:
    from orchestrator.ray_backend.cluster import local_cluster

    with local_cluster() as cluster:
        from tests.lab.chaos.day_trials import run_day  # Ray reads the cluster's settings when it is imported

        return run_day(n, cluster, folder)


if __name__ == "__main__":
    raise SystemExit(main())
