"""Searches for the deepest harmless freeze in worlds whose seeds are drawn from a table: the truth is its means.

A table has a handful of seeds, and a search may use twice as many. They are drawn in two ways: whole seeds of the table
anew, which keeps what its baseline and freezes share but knows only five losses; and normal ones with its means and
covariances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from orchestrator.analysis.decision_plan import MIN_SAVING
from orchestrator.search.depth_search import Depths, DepthSearch
from orchestrator.sweeps.search_spec import DepthGoalSpec, GoalSpec
from tests.lab.benchmarks.choose_depth import wilson
from tests.lab.benchmarks.search_table import POINTS, World, score_of
from tests.lab.replay import simulate
from trials.spec import TrialSpec

Draw = Literal["seeds", "normal"]
TOLERANCES = (0.5, 1.0, 2.0)  # points
SEEDS = 10  # a search may use
NEAR = 3.0  # points


@dataclass(frozen=True)
class Depth:
    """What came of a search for the deepest harmless freeze.

    Attributes:
        chosen: Index of the freeze, the least frozen being 0; -1 for none.
        true: What that freeze loses in truth, in points; 0 for none.
        share: Trials it ran, of those of all freezes and the baseline at all seeds.
    """

    chosen: int
    true: float
    share: float


@dataclass(frozen=True)
class Chain:
    """Freezes from the least to the most in one set-up, and the scores to draw replicates from.

    Attributes:
        depths: Baseline and freezes, as many replicates of each as a search may use.
        scores: Of the table, (1 + freezes, its seeds), the baseline first.
    """

    depths: Depths
    scores: np.ndarray

    @classmethod
    def of(cls, world: World, baseline: TrialSpec, n_seeds: int) -> Chain:
        """The cells of a baseline whose freezes are nested: the first layers, and the embeddings with them."""
        firsts = [specs[0] for specs in world.cells if specs[0].baseline_id == baseline.cell_id]
        nested = [spec for spec in firsts if spec.freeze.strategy in ("none", "first_k")]
        depths = Depths.of([spec.with_seed(seed) for spec in nested for seed in range(n_seeds)])
        cells = [world.truth[one[0].cell_id] for one in (depths.baseline, *depths.freezes)]
        return cls(depths, np.array([[score_of(world, spec) for spec in cell.specs] for cell in cells]))

    @property
    def losses(self) -> np.ndarray:
        """The true ones, in points, (freezes,)."""
        mean = self.scores.mean(1)
        found: np.ndarray = POINTS * (mean[0] - mean[1:])
        return found

    def deepest(self, tolerance: float) -> int:
        """The freeze that should be chosen: of those that are worth having and lose no more, what saves most; or -1."""
        savings = self.depths.savings
        fit = [i for i, loss in enumerate(self.losses) if loss <= tolerance and savings[i] >= MIN_SAVING]
        return max(fit, key=lambda i: (savings[i], i), default=-1)

    def drawn(self, rng: np.random.Generator, draw: Draw) -> np.ndarray:
        """Scores of made-up seeds, (1 + freezes, seeds): whole seeds of the table anew, which stay paired, or normal
        ones with the table's means and covariances.
        """
        n_seeds = len(self.depths.baseline)
        if draw == "seeds":
            return self.scores[:, rng.integers(self.scores.shape[1], size=n_seeds)]
        mean = self.scores.mean(1, keepdims=True)
        normal = rng.standard_normal((self.scores.shape[1], n_seeds)) / math.sqrt(self.scores.shape[1] - 1)
        found: np.ndarray = mean + (self.scores - mean) @ normal
        return found


def deepest(world: World, chain: Chain, tolerance: float, number: int, draw: Draw) -> Depth:
    """Search a chain whose replicates are drawn."""
    scores = chain.drawn(np.random.default_rng([number, 3]), draw)
    cells = [chain.depths.baseline, *chain.depths.freezes]
    last = world.table[world.cells[0][0].trial_id][-1]
    table = {
        spec.trial_id: [replace(last, score=float(scores[i, seed]))]
        for i, one in enumerate(cells)
        for seed, spec in one.items()
    }
    goal = GoalSpec(choose_depth=DepthGoalSpec(tolerance=tolerance))
    source = DepthSearch(goal, chain.depths, world.known)
    spent, found = simulate(source, table), source.decided().chosen
    share = spent.trials / scores.size
    if found is None:
        return Depth(-1, 0.0, share)
    ids = [next(iter(of_freeze.values())).cell_id for of_freeze in chain.depths.freezes]
    at = ids.index(found["cell"])
    return Depth(at, float(chain.losses[at]), share)


def of_depths(world: World, searches: int, draws: Sequence[Draw] = ("seeds", "normal")) -> dict[str, Any]:
    """How often the chosen depth is wrong, by way of drawing, tolerance and set-up."""
    found: dict[str, Any] = {}
    chains = near_chains(world)
    for draw in draws:
        for tolerance in TOLERANCES:
            runs = {
                name: [deepest(world, chain, tolerance, number, draw) for number in range(searches)]
                for name, chain in chains.items()
            }
            rows = {name: _errors(one, chains[name].deepest(tolerance), tolerance) for name, one in runs.items()}
            found[f"{draw}, {tolerance:g} points"] = rows
    return {"losses": {name: [float(x) for x in chain.losses] for name, chain in chains.items()}, **found}


def _errors(runs: Sequence[Any], right: int, tolerance: float) -> dict[str, Any]:
    return {
        "wrong": share_of(np.array([run.true > tolerance for run in runs])),
        "right": share_of(np.array([run.chosen == right for run in runs])),
        "trials": float(np.mean([run.share for run in runs])),
    }


def near_chains(world: World) -> dict[str, Chain]:
    """Set-ups whose baseline is not much worse than the best one."""
    baselines = {specs[0].cell_id: specs[0] for specs in world.cells if specs[0].freeze.is_baseline}
    true = {cell: world.true(world.truth[cell]) for cell in baselines}
    near = [baselines[cell] for cell in true if POINTS * (max(true.values()) - true[cell]) <= NEAR]
    return {
        f"lr {spec.optim.lr:g}, head {spec.optim.head_lr:g}": Chain.of(world, spec, SEEDS)
        for spec in near
    }  # fmt: skip


def share_of(values: np.ndarray) -> dict[str, Any]:
    """How often something is true, with Wilson's interval."""
    share = float(values.mean())
    return {"share": share, "share_95": list(wilson(share, len(values)))}
