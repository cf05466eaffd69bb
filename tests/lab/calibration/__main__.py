"""What intervals and decisions promise, in every world and on the shipped trials, goal beside figure.

python -m tests.lab.calibration                     # 4,000 sweeps a world, ten minutes on two cores
python -m tests.lab.calibration --only documents    # only what has that in its name
python -m tests.lab.calibration --write             # all, kept and written into docs/pages/explanation/intervals.md
python -m tests.lab.calibration --only folds --write   # these anew, beside the others that were kept

Exit code 1 if a goal is missed by more than three standard errors of the simulation, or if the shipped trials leave
what intervals presume.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.lab.calibration import page
from tests.lab.calibration.decisions import bad_seeds, collapsing
from tests.lab.calibration.halves import halves
from tests.lab.calibration.ledger import ledger_of
from tests.lab.calibration.measure import Figure, chances, figures, in_folds, power, unaware, uneven
from tests.lab.calibration.shipped import shipped
from tests.lab.calibration.worlds import FAMILIES, NEGLECTED, OTHERS, SINGLE, SMALL, STRESS


def jobs(sweeps: int, seed: int) -> dict[str, Callable[[], Iterator[Figure]]]:
    """What is simulated, by name; one setting is cheap and draws five times the sweeps, whole decisions a twentieth."""
    many, few = 5 * sweeps, max(sweeps // 20, 1)
    return {
        "halves": partial(_halves, seed),
        "collapses": partial(collapsing, few, seed),
        "bad seeds": partial(bad_seeds, few, seed),
        "unequal seeds": partial(uneven, few, seed),
        "chances": partial(chances, sweeps, seed),
        "power": partial(power, sweeps, seed),
        **{name: partial(figures, name, world, many, seed) for name, world in SINGLE.items()},
        **{name: partial(figures, name, world, sweeps, seed) for name, world in (FAMILIES | STRESS | OTHERS).items()},
        **{name: partial(in_folds, name, max(sweeps // 4, 1), seed) for name in SMALL},
        **{f"{name}, neglected": partial(unaware, name, OTHERS[name], sweeps, seed) for name in NEGLECTED},
    }


def _halves(seed: int) -> Iterator[Figure]:
    return halves(shipped(), seed=seed)


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.calibration", description=__doc__)
    parser.add_argument("--sweeps", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="TEXT", help="only what has this in its name")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--write", action="store_true", help="keep the figures, and write the page from them")
    options = parser.parse_args(arguments)
    wanted = [name for name in jobs(options.sweeps, options.seed) if options.only in name]
    if not wanted and options.only != "ledger":
        parser.error(f"--only {options.only}: no such world; there are {', '.join(jobs(1, 0))}")
    found: list[Figure] = []
    with ProcessPoolExecutor(options.processes) as pool:
        for of_job in pool.map(partial(_run, sweeps=options.sweeps, seed=options.seed), wanted):
            sys.stdout.writelines(f"{figure}\n" for figure in of_job)
            sys.stdout.flush()
            found += of_job
    entries = list(ledger_of(shipped())) if options.only in "ledger" else []
    sys.stdout.writelines(f"{entry}\n" for entry in entries)
    missed = sum(figure.missed for figure in found) + sum(entry.missed for entry in entries)
    sys.stdout.write(f"{missed} goals missed\n")
    if options.write:
        anew = {figure.world for figure in found}
        page.keep([*(old for old in page.kept() if options.only and old.world not in anew), *found])
        page.PAGE.write_text(page.text(), encoding="utf-8")
    return int(missed > 0)


def _run(name: str, sweeps: int, seed: int) -> list[Figure]:
    return list(jobs(sweeps, seed)[name]())


if __name__ == "__main__":
    sys.exit(main())
