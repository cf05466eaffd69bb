"""How often a search for the deepest harmless freeze errs, what it spends, and how often it finds it: simulated.

python -m tests.lab.benchmarks.choose_depth                    # 2,000 searches a row
python -m tests.lab.benchmarks.choose_depth --searches 200

The first table has the worst arrangements: two depths are harmless, the third loses a hair more than the tolerance, the
fourth is harmless again, the fifth loses three times as much; or all lose a hair more; or all from the third on. Losses
of all depths share the baseline's luck (correlation a half), and depths save 15, 30, ... %. The second, of a quarter of
the searches, is what a user may meet: losses that grow with depth. Beside each stands the fixed design: all depths at
all seeds, judged by the same shares of the error at one look.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from orchestrator.analysis.decide import decide
from orchestrator.analysis.decided import Decided
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.search.choose_depth import Budget, Want, wants

Floats = npt.NDArray[np.float64]
Shape = Callable[[Floats], Floats]  # of standard normal values: values of mean 0 and deviation 1
TOLERANCE = 0.005
ASKED = DecisionPlan(100 * TOLERANCE)
SCORE = 0.5  # of the baseline
Losses = Mapping[int, Floats | None]
"""Of one freeze by seed: (sentences,) whose mean is the loss, (1,) where only the loss is known, None for a failure."""
HAIR = 1e-6  # of the tolerance: more than what counts as rounding
WORST = (0.0, 0.1, 1.0 + HAIR, 0.2, 3.0)  # true losses, in tolerances
ALL = (1.0 + HAIR,) * 5
FROM_THIRD = (0.0, 0.1, *(1.0 + HAIR,) * 3)
SAVING = 0.15  # of each depth
CHURN = 5.0  # deviation of what differs from sentence to sentence in one seed alone, in tolerances


@dataclass(frozen=True)
class World:
    """Losses to draw searches from.

    Attributes:
        means: True mean loss of each depth, in tolerances.
        spread: Deviation of a seed's loss, in tolerances.
        shape: How losses of seeds are distributed.
        step: Of the score, in tolerances: losses are rounded to it at random, so that means stay; 0 for none.
        sentences: Deviation that `n_sentences` leave in the mean loss, in tolerances.
        n_sentences: Dev sentences; 1 where only the losses of seeds are known.
        folds: Of a cross-validation, 0 without: then any two seeds of a depth are correlated by 1 / folds.
    """

    means: tuple[float, ...]
    spread: float
    shape: Shape
    step: float = 0.0
    sentences: float = 0.0
    n_sentences: int = 1
    folds: int = 0

    def draw(self, rng: np.random.Generator, n_seeds: int) -> Floats:
        """(depths, seeds, sentences)"""
        of_seeds = self.shape(_shared(rng, len(self.means), n_seeds))
        if self.folds:
            common = _shared(rng, len(self.means), 1)
            of_seeds = (common + np.sqrt(self.folds - 1) * of_seeds) / np.sqrt(self.folds)
        losses = np.asarray(self.means)[:, None] + self.spread * of_seeds
        if self.step:
            losses = self.step * np.floor(losses / self.step + rng.uniform(size=losses.shape))
        found: Floats = losses[..., None]
        if self.n_sentences > 1:
            spread = self.sentences * np.sqrt(self.n_sentences)
            found = found + spread * _shared(rng, len(self.means), self.n_sentences)[:, None, :]
            found = found + CHURN * rng.standard_normal(found.shape)
        return TOLERANCE * found

    @property
    def deepest(self) -> int:
        """The last depth that loses no more than the tolerance; -1 for none."""
        return max((index for index, mean in enumerate(self.means) if mean <= 1), default=-1)


def _shared(rng: np.random.Generator, depths: int, n: int) -> Floats:
    """(depths, n) standard normal values that share half of their variance."""
    found: Floats = np.sqrt(0.5) * (rng.standard_normal((1, n)) + rng.standard_normal((depths, n)))
    return found


def lognormal(sigma: float, side: int = 1) -> Shape:
    """Tail towards large losses (`side` 1) or large gains (-1)."""
    mean, variance = np.exp(sigma**2 / 2), (np.exp(sigma**2) - 1) * np.exp(sigma**2)
    return lambda z: side * (np.exp(sigma * side * z) - mean) / np.sqrt(variance)


def student3(z: Floats) -> Floats:
    """Student's t with 3 degrees of freedom."""
    found: Floats = special.stdtrit(3, special.ndtr(z)) / np.sqrt(3)
    return found


def exponential(z: Floats) -> Floats:
    """Skewness 2."""
    found: Floats = -special.log_ndtr(-z) - 1
    return found


def seldom(z: Floats) -> Floats:
    """Two values, the larger in one seed of six: most looks at three seeds see none of it."""
    found: Floats = (6 * (z > special.ndtri(5 / 6)) - 1) / np.sqrt(5)
    return found


def normal(z: Floats) -> Floats:
    """As drawn."""
    return z


def savings(depths: int) -> list[float]:
    """What the depths save."""
    return [min(SAVING * (1 + index), 0.9) for index in range(depths)]


def decided(
    losses: Sequence[Losses],
    seeds: Sequence[int],
    saved: Sequence[float] | None = None,
    plan: DecisionPlan = ASKED,
    folds: int = 0,
) -> Decided:
    """What these losses decide, of trials planned for all seeds; freezes from the least frozen to the most."""
    saved = savings(len(losses)) if saved is None else saved
    shapes = {loss.shape for of_freeze in losses for loss in of_freeze.values() if loss is not None}
    n = shapes.pop()[0] if len(shapes) == 1 else 1
    none = dict.fromkeys((seed for of_freeze in losses for seed in of_freeze), np.zeros(n))
    rows = []
    for place, (of_cell, share) in enumerate(zip((none, *losses), (0.0, *saved), strict=True)):
        for seed in seeds:
            loss = of_cell.get(seed)
            values = None if loss is None else SCORE - loss
            rows.append({
                "cell": str(place), "baseline": "0", "group": "", "freeze": f"first {place}" if place else "none",
                "seed": seed, "state": "completed" if loss is not None else "failed" if seed in of_cell else None,
                "score": np.nan if values is None else values.mean(), "folds": folds, "examples": 260,
                "sentences": values if values is not None and n > 1 and len(values) == n else None,
                "trainable_params": np.nan if values is None else 1 - share,
            })  # fmt: skip
    return decide(pd.DataFrame(rows), plan)


def wanted(
    losses: Sequence[Losses],
    seeds: Sequence[int],
    saved: Sequence[float] | None = None,
    budget: Budget = Budget(),  # noqa: B008
    folds: int = 0,
) -> list[Want]:
    """What comes next after these losses."""
    saved = savings(len(losses)) if saved is None else saved
    return wants(decided(losses, seeds, saved, folds=folds), list(map(set, losses)), seeds, saved, budget)


def search(
    draws: Floats, rng: np.random.Generator, slots: int = 1, worth: float = 0.5, folds: int = 0
) -> tuple[int, int]:
    """The depth that a search chooses, -1 for none, and the trials it started; these end in any order."""
    losses: list[dict[int, Floats | None]] = [{} for _ in draws]
    running: list[tuple[int, int]] = []
    spent, seeds = set[tuple[int, int]](), range(draws.shape[1])
    while found := wanted(losses, seeds, folds=folds):
        pairs = [(want.candidate, want.seed) for want in found if want.chance >= worth]
        started = [pair for pair in pairs if pair not in running][: slots - len(running)]
        running += started
        spent.update(each for candidate, seed in started for each in ((candidate, seed), (-1, seed)))
        candidate, seed = running.pop(int(rng.integers(len(running))))
        losses[candidate][seed] = draws[candidate, seed]
    return chosen(decided(losses, seeds, folds=folds)), len(spent)


def chosen(of: Decided) -> int:
    """The freeze that is recommended, -1 for none."""
    return -1 if of.chosen is None else int(of.chosen["cell"]) - 1


def within(draws: Floats, trials: int) -> int:
    """The depth chosen after so many trials, if the search goes on while there are any: -1 for none."""
    losses: list[dict[int, Floats | None]] = [{} for _ in draws]
    spent, seeds = set[tuple[int, int]](), range(draws.shape[1])
    while trials > len(spent):
        budget = Budget(seconds=float(trials - len(spent)), of_trial=(1.0,) * (1 + len(draws)))
        if not (found := wanted(losses, seeds, budget=budget)):
            break
        candidate, seed, _ = found[0]
        spent.update([(candidate, seed), (-1, seed)])
        losses[candidate][seed] = draws[candidate, seed]
    return chosen(decided(losses, seeds))


def fixed(draws: Floats, folds: int = 0) -> int:
    """The depth that all seeds of all depths show, at one look: -1 for none."""
    once = replace(ASKED, min_seeds=draws.shape[1])
    return chosen(decided([dict(enumerate(each)) for each in draws], range(draws.shape[1]), plan=once, folds=folds))


class Rates(NamedTuple):
    """Of many searches: the share that chose wrong and exactly right, trials spent on average, and fixed designs."""

    n: int
    wrong: float
    right: float
    spent: float
    fixed_wrong: float
    fixed_right: float


def rates(world: World, searches: int, *, n_seeds: int = 10, slots: int = 1, seed: int = 0) -> Rates:
    """Simulate, with numbers of its own for every `seed`."""
    rng = np.random.default_rng(seed)
    found, spent, by_design = np.empty((3, searches))
    for at in range(searches):
        draws = world.draw(rng, n_seeds)
        found[at], spent[at] = search(draws, rng, slots, folds=world.folds)
        by_design[at] = fixed(draws, world.folds)
    loses = np.array([*(mean > 1 for mean in world.means), False])  # the last is "none"
    both = (loses[picked.astype(int)].mean() for picked in (found, by_design))
    exact = ((picked == world.deepest).mean() for picked in (found, by_design))
    (wrong, fixed_wrong), (right, fixed_right) = both, exact
    return Rates(searches, *map(float, (wrong, right, spent.mean(), fixed_wrong, fixed_right)))


def wilson(share: float, n: int) -> tuple[float, float]:
    """95 % interval of a share (E. Wilson, JASA 22 (1927), 209-212)."""
    z = 1.96
    middle, half = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return float((middle - half) / (1 + z**2 / n)), float((middle + half) / (1 + z**2 / n))


def worst_cases() -> Iterator[tuple[str, World, int, int]]:
    """Name, world, seeds, slots."""
    shapes: list[tuple[str, Shape]] = [
        ("normal", normal),
        ("t3", student3),
        ("lognormal, skewness 0.95", lognormal(0.3)),
        ("lognormal, skewness 1.75", lognormal(0.5)),
        ("lognormal, skewness -1.75", lognormal(0.5, -1)),
        ("exponential, skewness 2", exponential),
    ]
    yield from ((name, World(WORST, 0.4, shape), 10, 1) for name, shape in shapes)
    for name, shape in (shapes[0], shapes[3], shapes[5]):
        yield f"{name}, 500 sentences", World(WORST, 0.4, shape, sentences=0.15, n_sentences=500), 10, 1
    for arrangement, means in (("all lose a hair more", ALL), ("all from the third on", FROM_THIRD)):
        for name, shape in (shapes[0], shapes[3], shapes[5]):
            yield f"{arrangement}: {name}", World(means, 0.4, shape), 10, 1
        yield f"{arrangement}: mostly sentences", World(means, 0.1, normal, sentences=0.3, n_sentences=500), 10, 1
    for name, shape in (shapes[0], shapes[5]):
        yield f"all lose a hair more, 5 folds: {name}", World(ALL, 0.4, shape, folds=5), 10, 1
    yield "normal, mostly sentences", World(WORST, 0.1, normal, sentences=0.3, n_sentences=500), 10, 1
    yield "normal, 4 slots", World(WORST, 0.4, normal), 10, 4
    yield "lognormal, skewness 1.75, 4 slots", World(WORST, 0.4, lognormal(0.5)), 10, 4
    for most in (5, 20):
        yield f"normal, looks 3..{most}", World(WORST, 0.4, normal), most, 1
        yield f"lognormal 1.75, looks 3..{most}", World(WORST, 0.4, lognormal(0.5)), most, 1
    collapse = World((1.0 + HAIR,), float(np.sqrt(5)), seldom)
    yield "one seed of six loses six tolerances, looks 3..20", collapse, 20, 1
    known = World((1.0 + HAIR,), float(np.sqrt(5)), seldom, sentences=0.15, n_sentences=500)
    yield "the same, 500 sentences, looks 3..10", known, 10, 1
    for step, spread in ((0.25, 0.0), (1.0, 0.3)):
        yield f"steps of {step:g} tolerances, spread {spread:g}", World(WORST, spread, normal, step), 10, 1


def usual_cases() -> Iterator[tuple[str, World, int, int]]:
    """Name, world, seeds, slots: losses that grow with depth, the deepest harmless one two thirds down."""
    for depths in (6, 12):
        last = 2 * depths // 3
        means = tuple(0.3 * (k / last) ** 2 if k < last else 2.0 + k - last for k in range(depths))
        for spread in (1.0, 0.5, 0.33):
            for most in (10, 20):
                yield f"{depths} depths, spread {spread:g}, {most} seeds", World(means, spread, normal), most, 1
        both = World(means, 0.4, normal, sentences=0.15, n_sentences=500)
        yield f"{depths} depths, spread 0.4, 500 sentences, 10 seeds", both, 10, 1
        yield f"{depths} depths, spread 0.5, 10 seeds, 4 slots", World(means, 0.5, normal), 10, 4


def line(name: str, found: Rates, whole: int) -> str:
    """One row of a table; `whole` is what the fixed design spends."""
    low, high = wilson(found.wrong, found.n)
    return (
        f"{name:52s} {100 * found.wrong:5.1f} ({100 * low:4.1f} to {100 * high:4.1f}) {100 * found.right:6.1f} "
        f"{found.spent:7.1f} {whole:6d} {100 * found.fixed_wrong:8.1f} {100 * found.fixed_right:8.1f}"
    )


def main(argv: list[str] | None = None) -> int:
    """Print both tables, a row when it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=2000, help="a row")
    args = parser.parse_args(argv)
    sys.stdout.write(f"{'':52s} too deep, %           found % trials  fixed too deep  found\n")
    for cases, searches in ((worst_cases(), args.searches), (usual_cases(), args.searches // 4)):
        for name, world, n_seeds, slots in cases:
            found = rates(world, searches, n_seeds=n_seeds, slots=slots)
            sys.stdout.write(line(name, found, (1 + len(world.means)) * n_seeds) + "\n")
            sys.stdout.flush()
        sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
