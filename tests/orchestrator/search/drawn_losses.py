"""Whole searches for the deepest harmless freeze, simulated on losses that are drawn.

The worst arrangements: two depths are harmless, the third loses a hair more than the tolerance, the fourth is harmless
again, the fifth loses three times as much. Losses of all depths share the baseline's luck (correlation a half), and
depths save 15, 30, ... %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.decide import Decision, decide
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.search.choose_depth import Budget, Want, next_pairs
from trials.spec import FreezeSpec

Floats = npt.NDArray[np.float64]
TOLERANCE = 0.005
ASKED = DecisionPlan(100 * TOLERANCE)
SCORE = 0.5  # of the baseline
Losses = Mapping[int, Floats | None]
"""Of one freeze by seed: (sentences,) whose mean is the loss, (1,) where only the loss is known, None for a failure."""
HAIR = 1e-6  # of the tolerance: more than what counts as rounding
WORST = (0.0, 0.1, 1.0 + HAIR, 0.2, 3.0)  # true losses, in tolerances
SAVING = 0.15  # of each depth


@dataclass(frozen=True)
class World:
    """Losses to draw searches from.

    Attributes:
        means: True mean loss of each depth, in tolerances.
        spread: Deviation of a seed's loss, in tolerances.
    """

    means: tuple[float, ...]
    spread: float

    def draw(self, rng: np.random.Generator, n_seeds: int) -> Floats:
        """(depths, seeds, sentences)"""
        of_seeds = _shared(rng, len(self.means), n_seeds)
        found = np.asarray(self.means)[:, None, None] + self.spread * of_seeds[..., None]
        return TOLERANCE * found

    @property
    def deepest(self) -> int:
        """The last depth that loses no more than the tolerance; -1 for none."""
        return max((index for index, mean in enumerate(self.means) if mean <= 1), default=-1)


def _shared(rng: np.random.Generator, depths: int, n: int) -> Floats:
    """(depths, n) standard normal values that share half of their variance."""
    found: Floats = np.sqrt(0.5) * (rng.standard_normal((1, n)) + rng.standard_normal((depths, n)))
    return found


def savings(depths: int) -> list[float]:
    """What the depths save."""
    return [min(SAVING * (1 + index), 0.9) for index in range(depths)]


def decided(
    losses: Sequence[Losses],
    seeds: Sequence[int],
    saved: Sequence[float] | None = None,
) -> Decision:
    """What these losses decide, of trials planned for all seeds; freezes from the least frozen to the most."""
    saved = savings(len(losses)) if saved is None else saved
    shapes = {loss.shape for of_freeze in losses for loss in of_freeze.values() if loss is not None}
    n = shapes.pop()[0] if len(shapes) == 1 else 1
    none = dict.fromkeys((seed for of_freeze in losses for seed in of_freeze), np.zeros(n))
    rows = []
    for place, (of_cell, share) in enumerate(zip((none, *losses), (0.0, *saved), strict=True)):
        freeze = FreezeSpec(strategy="first_k", layers=tuple(range(place)), embeddings=False)
        for seed in seeds:
            loss = of_cell.get(seed)
            values = None if loss is None else SCORE - loss
            rows.append({
                "cell": str(place), "baseline": "0", "group": "", "freeze_spec": freeze,
                "seed": seed, "state": "completed" if loss is not None else "failed" if seed in of_cell else None,
                "score": np.nan if values is None else values.mean(), "folds": 0, "examples": 260,
                "sentences": values if values is not None and n > 1 and len(values) == n else None,
                "trainable_params": np.nan if values is None else 1 - share,
            })  # fmt: skip
    return decide(pd.DataFrame(rows), ASKED)


def wanted(
    losses: Sequence[Losses],
    seeds: Sequence[int],
    saved: Sequence[float] | None = None,
    budget: Budget = Budget(),  # noqa: B008
) -> list[Want]:
    """What comes next after these losses."""
    saved = savings(len(losses)) if saved is None else saved
    return next_pairs(decided(losses, seeds, saved), list(map(set, losses)), seeds, saved, budget)


def search(draws: Floats, rng: np.random.Generator, slots: int = 1) -> tuple[int, int]:
    """The depth that a search chooses, -1 for none, and the trials it started; these end in any order."""
    losses: list[dict[int, Floats | None]] = [{} for _ in draws]
    running: list[tuple[int, int]] = []
    spent, seeds = set[tuple[int, int]](), range(draws.shape[1])
    while found := wanted(losses, seeds):
        pairs = [(want.candidate, want.seed) for want in found if want.chance >= 0.5]
        started = [pair for pair in pairs if pair not in running][: slots - len(running)]
        running += started
        spent.update(each for candidate, seed in started for each in ((candidate, seed), (-1, seed)))
        candidate, seed = running.pop(int(rng.integers(len(running))))
        losses[candidate][seed] = draws[candidate, seed]
    return chosen(decided(losses, seeds)), len(spent)


def chosen(of: Decision) -> int:
    """The freeze that is recommended, -1 for none."""
    return -1 if of.choice is None else int(of.choice["cell"]) - 1


class Rates(NamedTuple):
    """Of many searches: the share that chose wrong, and trials spent on average."""

    wrong: float
    spent: float


def rates(world: World, searches: int, *, n_seeds: int = 10, slots: int = 1, seed: int = 0) -> Rates:
    """Simulate, with numbers of its own for every `seed`."""
    rng = np.random.default_rng(seed)
    found = [search(world.draw(rng, n_seeds), rng, slots) for _ in range(searches)]
    wrong = [depth >= 0 and world.means[depth] > 1 for depth, _ in found]
    return Rates(float(np.mean(wrong)), float(np.mean([spent for _, spent in found])))
