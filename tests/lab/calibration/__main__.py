"""What intervals and decisions promise, in every world, goal beside figure: python -m tests.lab.calibration

python -m tests.lab.calibration                     # 4,000 sweeps a world, ten minutes on a core
python -m tests.lab.calibration --only documents    # only the worlds whose name holds that

Exit code 1 if a goal is missed by more than three standard errors of the simulation.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.lab.calibration.decisions import bad_seeds, collapsing, two_ways_to_ask
from tests.lab.calibration.measure import Figure, families, figures, power
from tests.lab.calibration.worlds import WORLDS


def jobs(sweeps: int, seed: int) -> dict[str, Callable[[], Iterator[Figure]]]:
    """What is simulated, by name; where whole decisions are made, a tenth of the sweeps."""
    few = max(sweeps // 10, 1)
    return {
        **{name: partial(figures, name, world, sweeps, seed) for name, world in WORLDS.items()},
        "power": partial(power, sweeps, seed),
        "several settings": partial(families, few, seed),
        "collapses": partial(collapsing, few, seed),
        "bad seeds": partial(bad_seeds, few, seed),
        "choose_depth": partial(two_ways_to_ask, few, seed),
    }


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.calibration", description=__doc__)
    parser.add_argument("--sweeps", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="TEXT", help="only what has this in its name")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    wanted = [name for name in jobs(options.sweeps, options.seed) if options.only in name]
    if not wanted:
        parser.error(f"--only {options.only}: no such world; there are {', '.join(jobs(1, 0))}")
    missed = 0
    with ProcessPoolExecutor(options.processes) as pool:
        for found in pool.map(partial(_run, sweeps=options.sweeps, seed=options.seed), wanted):
            for figure in found:
                sys.stdout.write(f"{figure}\n")
                missed += figure.missed
            sys.stdout.flush()
    sys.stdout.write(f"{missed} goals missed\n")
    return int(missed > 0)


def _run(name: str, sweeps: int, seed: int) -> list[Figure]:
    return list(jobs(sweeps, seed)[name]())


if __name__ == "__main__":
    sys.exit(main())
