"""The rate of drivers that share a sweep of trials of a second, against that of one alone and of as many apart.

python -m tests.lab.benchmarks.sharing --drivers 8 --trials 20 --delay-ms 50 --rounds 3

A trial sleeps, so that two cores hold many drivers, each a process. With a delay the store is on an S3 on loopback
that waits before each answer, else in a folder. A driver's rate is that from its first trial's start to its last
one's end. What drivers in stores of their own lose is the machine's doing, not that of sharing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from orchestrator.claims import TIMING
from orchestrator.execution.trial_source import Listed
from orchestrator.store import open_store
from tests.builders import make_spec
from tests.orchestrator.execution.sharing_driver import asleep, drive
from tests.s3_server import ENVIRONMENT, S3Process


def rate(stores: Sequence[str], trials: int) -> float:
    """Trials a second of a driver for each mention of a store, all at the same time, each of so many on the average."""
    numbers = [trials * stores.count(store) for store in stores]
    with ProcessPoolExecutor(len(stores), get_context("fork")) as pool:
        return sum(pool.map(_own_rate, stores, numbers, range(len(stores))))


def _own_rate(address: str, n: int, number: int) -> float:
    store, times = open_store(address, must_exist=False), list[float]()
    store.create()

    def told(line: str) -> None:
        if not line.startswith("settled"):
            times.append(time.monotonic())

    specs = [make_spec(seed=seed) for seed in range(n)]
    drive(store, f"node{number}", lambda start: Listed(specs, start=start), asleep(1.0), told=told, timing=TIMING)
    return len(times) / 2 / (times[-1] - times[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drivers", type=int, default=8)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--delay-ms", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    os.environ |= ENVIRONMENT
    shares = list[list[float]]()
    with tempfile.TemporaryDirectory() as folder, S3Process(delay_s=args.delay_ms / 1000) as s3:
        for number in range(args.rounds):
            names = [f"{number}-{n}" for n in range(args.drivers + 2)]
            one, shared, *apart = [s3.address(name) if args.delay_ms else str(Path(folder, name)) for name in names]
            rates = [rate(each, args.trials) for each in ([one], [shared] * args.drivers, apart)]
            found = [rates[1] / args.drivers / rates[0], rates[1] / rates[2]]
            shares.append(found)
            told = dict(zip(("alone", "together", "apart", "of_alone", "of_apart"), (*rates, *found), strict=True))
            sys.stdout.write(json.dumps({name: round(value, 3) for name, value in told.items()}) + "\n")
            sys.stdout.flush()
    medians = [round(statistics.median(column), 3) for column in zip(*shares, strict=True)]
    sys.stdout.write(json.dumps({"of_alone": medians[0], "of_apart": medians[1]}) + "\n")


if __name__ == "__main__":
    main()
