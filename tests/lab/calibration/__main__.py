"""Coverage, wrong verdicts, power and width in every world: python -m tests.lab.calibration

python -m tests.lab.calibration                     # 2,000 sweeps a world, some minutes on one core
python -m tests.lab.calibration --sweeps 10000      # standard error of a 5 % rate: 0.2 %
python -m tests.lab.calibration --answers 60        # stores in, answers out: a minute a world
"""

from __future__ import annotations

import argparse
import sys

from tests.lab.calibration.answers import measure_answers
from tests.lab.calibration.measure import LOOKS, Rates, bound_holds, measure, measure_family
from tests.lab.calibration.worlds import WORLDS, Words, exponential, normal

FAMILIES = {"normal": normal, "exponential": exponential}


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.calibration", description=__doc__)
    parser.add_argument("--sweeps", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", choices=[*WORLDS], action="append", help="only this one")
    parser.add_argument("--answers", type=int, metavar="SWEEPS", help="through stores and `permafrost answer` instead")
    options = parser.parse_args(arguments)
    if options.answers:
        return _through_stores(options.world or [*WORLDS], options.answers, options.seed)
    _line(
        "world",
        "seeds",
        "covered",
        "wrong",
        "power",
        "width",
        "used",
        "| seeds alone: covered",
        "wrong",
        "power",
        "width",
    )
    for name in options.world or WORLDS:
        measured = measure(WORLDS[name], options.sweeps, options.seed)
        for ours, old in zip(*measured, strict=True):
            _line(name, str(ours.n or "3 to 10"), *_cells(ours), f"{ours.seeds:.1f}", *_cells(old))
    if options.world:
        return 0
    _line("\n4 settings", "seeds", "any wrong", "power", "in order: any wrong", "power")
    for name, shape in FAMILIES.items():
        world = Words(0.006, 0.08, shape=shape, settings=4)
        for looks in (None, LOOKS):
            found = measure_family(world, options.sweeps // 5, options.seed, looks)
            _line(name, "3 to 10" if looks else "5", *(f"{100 * rate:.1f}" for rate in found))
    _line("\nbound on collapses holds", *(f"{n} runs: {100 * bound_holds(4000, 0, n):.1f}" for n in (10, 40, 100)))
    return 0


def _through_stores(worlds: list[str], sweeps: int, seed: int) -> int:
    """Rates of answers with one setting, and with four in chains of their own."""
    _line("world", "chains", "seeds", "covered", "wrong", "power")
    for name in worlds:
        for chains in (1, 4):
            for rates in measure_answers(WORLDS[name], sweeps, seed, chains):
                shares = (f"{100 * share:.1f}" for share in (rates.covered, rates.wrong, rates.power))
                _line(name, str(chains), str(rates.n or "3 to 10"), *shares)
    return 0


def _cells(rates: Rates) -> list[str]:
    shares = [f"{100 * share:.1f}" for share in (rates.covered, rates.wrong, rates.power)]
    return [*shares, f"{rates.width:.2f}"]


def _line(*cells: str) -> None:
    sys.stdout.write("  ".join([cells[0].ljust(28), *(cell.rjust(9) for cell in cells[1:])]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
