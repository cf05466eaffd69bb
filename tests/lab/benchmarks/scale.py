"""Ten thousand trials over two hundred slots of one machine's Ray: trials that sleep and report, all else is real.

python -m tests.lab.benchmarks.scale             # 10,000 trials of 30 s over 200 slots: half an hour
python -m tests.lab.benchmarks.scale --trials 1000 --slots 50 --seconds 10 --out scale.json

The ideal is `trials / slots * seconds`. Ray's own figure for Tune is 10,000 trials of 1 s on 16 CPUs in 715 s against
an ideal 625 s, 14.4 % over it (https://docs.ray.io, "Scalability and overhead benchmarks for Ray Tune").
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def main(argv: list[str] | None = None) -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--slots", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a trial")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    # As many cores as slots, whatever the machine has: sleeping takes none. All workers start at once at first.
    os.environ["RAY_OVERRIDE_RESOURCES"] = json.dumps({"CPU": args.slots})
    os.environ["PERMAFROST_SCALE_SECONDS"] = str(args.seconds)
    found = measure(args.trials, args.slots, args.seconds)
    text = json.dumps(found, indent=1)
    if args.out:
        args.out.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")
    return 0


def measure(trials: int, slots: int, seconds: float) -> dict[str, Any]:
    """Seconds of the whole sweep, of what comes after all slots worked for the first time, and the driver's memory."""
    from orchestrator.ray_backend.cluster import local_cluster

    ideal = trials / slots * seconds
    with tempfile.TemporaryDirectory(prefix="scale-") as folder, local_cluster() as cluster:
        from tests.lab.benchmarks.scale_trials import run

        started = time.perf_counter()
        recorder, states, n_rows = run(trials, cluster, Path(folder))
        took = time.perf_counter() - started
    busy_s, left_ideal = recorder.all_busy_s(slots), recorder.ideal_since_busy_s(slots, seconds)
    return {
        "trials": trials, "slots": slots, "seconds_a_trial": seconds, "states": states, "epoch_rows": n_rows,
        "ideal_s": round(ideal, 1), "took_s": round(took, 1), "over_ideal": round(took / ideal - 1, 4),
        "all_slots_busy_after_s": round(busy_s, 1),
        "over_ideal_once_busy": round(recorder.since_busy_s(slots) / left_ideal - 1, 4),
        "driver_mb_at": recorder.driver_mb_at,
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
