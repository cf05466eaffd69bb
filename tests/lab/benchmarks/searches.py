"""Compare searches on a finished sweep: what they find with so many epochs, and what they spend to find the best.

python -m tests.lab.benchmarks.searches [--searches 200] [--out tests/lab/benchmarks/searches.json] [--only score]

Nothing is trained: the table is the finished store of configs/sweeps/starter_search.yaml among the tests' assets, or
another sweep's with `--sweep` and `--store`. Every search has a number, which is its seed and says which replicates it
sees and in which order cells come; methods are compared search by search. Intervals are 95 % percentile bootstraps over
searches (Efron 1979), and Wilson's of shares.

- *score*: regret of the cell that a search of one replicate a cell names after so many cells: by how many points its
  mean over all seeds is below that of the best cell.
- *fronts*: hypervolume, above the worst values of the table, of the cells that a search names, at their means over all
  seeds, as a share of that of all cells.
- *schedules*: epochs of the grid's with all seeds, regret, and how often the choice is the grid's or as good.
- *depths*: how often the chosen freeze truly loses more than the tolerance, in worlds whose seeds are drawn from the
  table; those set-ups whose baseline is within three points of the best.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.search.steering import front
from orchestrator.sweeps.search_spec import ScheduleSpec
from tests.lab.benchmarks.search_depths import of_depths, share_of
from tests.lab.benchmarks.search_table import (
    STORE,
    SWEEP,
    Kind,
    World,
    chosen,
    hypervolume,
    in_order,
    seen_front,
)

PARTS = ("score", "fronts", "schedules", "depths")
BUDGETS = (12, 20, 30)  # cells of one replicate
OBJECTIVES = (("score", "trainable_params"), ("score", "train_s"))
ENOUGH = 0.4  # of the grid's epochs
RESAMPLES = 10_000
Found = dict[str, Any]
Floats = np.ndarray


def of_score(world: World, searches: int, kinds: Sequence[Kind] = ("random", "sobol", "tpe")) -> Found:
    """Regrets of one-objective searches after each budget, and the differences from random."""

    def regrets(kind: Kind, number: int) -> list[float]:
        cells = in_order(world, kind, number, BUDGETS[-1])
        return [world.regret(best) for n in BUDGETS for best in front(cells[:n], ("score",))]

    return _against_random(kinds, lambda kind: np.array([regrets(kind, number) for number in range(searches)]))


def of_front(world: World, searches: int, objectives: tuple[str, str]) -> Found:
    """Hypervolumes of two-objective searches after each budget, in hundredths, and the difference from random."""

    def volumes(kind: Kind, number: int) -> list[float]:
        cells = in_order(world, kind, number, BUDGETS[-1], objectives)
        return [100 * hypervolume(world, seen_front(cells[:n], objectives), objectives) for n in BUDGETS]

    kinds: tuple[Kind, ...] = ("random", "sobol", "pareto")
    return _against_random(kinds, lambda kind: np.array([volumes(kind, number) for number in range(searches)]))


def _against_random(kinds: Sequence[Kind], values_of: Callable[[Kind], Floats]) -> Found:
    values = {kind: values_of(kind) for kind in kinds}  # (searches, budgets) each
    found: Found = {}
    for at, n in enumerate(BUDGETS):
        rows: Found = {kind: _described(one[:, at]) for kind, one in values.items()}
        rows |= {f"{kind} - random": _difference(values[kind][:, at] - values["random"][:, at]) for kind in kinds[1:]}
        found[str(n)] = rows
    return found


def _described(values: Floats) -> Found:
    return {
        "mean": float(values.mean()),
        "mean_95": interval(values, np.mean),
        "median": float(np.median(values)),
        "median_95": interval(values, np.median),
        "q90": float(np.quantile(values, 0.9)),
    }


def _difference(values: Floats) -> Found:
    return {"mean": float(values.mean()), "mean_95": interval(values, np.mean)}


def interval(values: Floats, statistic: Callable[..., Floats]) -> list[float]:
    """95 % percentile bootstrap of a statistic of values (n,)."""
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    return [float(one) for one in np.quantile(statistic(values[drawn], axis=1), [0.025, 0.975])]


def schedules(n_cells: int) -> dict[str, tuple[ScheduleSpec, int | None]]:
    """Each by its name, with how many evenly spread cells it is given; None for all."""
    asha = ScheduleSpec(kind="asha")
    return {
        "asha": (asha, None),
        "sobol + asha": (asha, n_cells // 2),
    }


def of_schedules(world: World, searches: int, slots: Sequence[int] = (1, 8)) -> Found:
    """What each schedule spends and finds."""
    found: Found = {}
    for name, (method, sobol) in schedules(len(world.cells)).items():
        for n in slots:
            runs = [chosen(world, method, number, slots=n, sobol=sobol) for number in range(searches)]
            shares, regrets = np.array([run.share for run in runs]), np.array([run.regret for run in runs])
            found[f"{name}, {n} slot{'s' if n > 1 else ''}"] = {
                "epochs_mean": float(shares.mean()),
                "epochs_most": float(shares.max()),
                "within": share_of(shares <= ENOUGH),
                "regret_median": float(np.median(regrets)),
                "regret_q90": float(np.quantile(regrets, 0.9)),
                "same": share_of(np.array([run.same for run in runs])),
                "as_good": share_of(np.array([run.as_good for run in runs])),
            }
    return found


def measure(world: World, searches: int, parts: Sequence[str] = PARTS) -> Found:
    """All of it, or some parts."""
    scores = [world.true(cell) for cell in world.truth.values()]
    table = {"cells": len(world.cells), "epochs": world.epochs, "best": max(scores), "worst": min(scores)}
    measures: dict[str, Callable[[], Found]] = {
        "score": lambda: of_score(world, searches),
        "fronts": lambda: {", ".join(one): of_front(world, searches, one) for one in OBJECTIVES},
        "schedules": lambda: of_schedules(world, searches),
        "depths": lambda: of_depths(world, searches),
    }
    return {"table": table, "searches": searches, **{name: measures[name]() for name in parts}}


def markdown(found: Mapping[str, Any]) -> str:
    """Tables for a person."""
    parts = [_learned("regret, points", found["score"])] if "score" in found else []
    parts += [_learned(f"hypervolume of {name}, %", rows) for name, rows in found.get("fronts", {}).items()]
    parts += [_scheduled(found["schedules"])] if "schedules" in found else []
    return "\n\n".join([*parts, *([_depths(found["depths"])] if "depths" in found else [])])


def _learned(what: str, rows: Mapping[str, Any]) -> str:
    lines = [f"| {what} | cells | mean | median | nine in ten | less random |", "|---|---|---|---|---|---|"]
    for n, kinds in rows.items():
        for kind in (one for one in kinds if " - " not in one):
            own, less = kinds[kind], kinds.get(f"{kind} - random")
            values = [_ranged(own, "mean"), _ranged(own, "median"), f"{own['q90']:.2f}"]
            lines.append(f"| {kind} | {n} | {' | '.join(values)} | {_ranged(less, 'mean') if less else ''} |")
    return "\n".join(lines)


def _ranged(row: Mapping[str, Any], key: str, scale: float = 1.0) -> str:
    low, high = row[f"{key}_95"]
    return f"{scale * row[key]:.2f} ({scale * low:.2f} to {scale * high:.2f})"


def _scheduled(rows: Mapping[str, Any]) -> str:
    lines = ["| schedule | epochs | most | within 40 % | regret, median | nine in ten | the grid's cell | as good |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, row in rows.items():
        epochs = f"{row['epochs_mean']:.1%} | {row['epochs_most']:.1%} | {row['within']['share']:.1%}"
        regrets = f"{row['regret_median']:.2f} | {row['regret_q90']:.2f}"
        lines.append(f"| {name} | {epochs} | {regrets} | {row['same']['share']:.1%} | {row['as_good']['share']:.1%} |")
    return "\n".join(lines)


def _depths(rows: Mapping[str, Any]) -> str:
    lines = ["| seeds drawn, tolerance | set-up | wrong, % | the deepest found, % | trials |", "|---|---|---|---|---|"]
    for what, chains in rows.items():
        for name, row in chains.items() if what != "losses" else ():
            shares = f"{_ranged(row['wrong'], 'share', 100)} | {_ranged(row['right'], 'share', 100)}"
            lines.append(f"| {what} | {name} | {shares} | {row['trials']:.0%} |")
    return "\n".join(lines)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--sweep", type=Path, default=SWEEP)
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--set", action="append", default=[], dest="settings", help="KEY=VALUE, over the sweep's file")
    parser.add_argument("--only", choices=PARTS, help="one part; the others stay as they are in the file of --out")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    before = json.loads(args.out.read_text(encoding="utf-8")) if args.only and args.out and args.out.exists() else {}
    world = World.of(args.sweep, args.store, args.settings)
    found = before | _rounded(measure(world, args.searches, [args.only] if args.only else PARTS))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(markdown(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
