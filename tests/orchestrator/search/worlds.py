"""A made-up table of trials whose best cell is known, and what a search needs beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore
from orchestrator.sweeps.search_spec import Layers
from orchestrator.sweeps.space import Point
from tests.builders import make_record, make_spec
from tests.orchestrator.search.replay import RecordedTrials
from trials.record import EpochRecord
from trials.spec import TrialSpec

EPOCHS = 9
RATES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
DEPTHS = tuple(range(7))
SIX_LAYERS: Layers = lambda point: 6  # noqa: E731


def spec_of(depth: int, lr: float, seed: int = 0) -> TrialSpec:
    freeze = {"strategy": "first_k" if depth else "none", "layers": tuple(range(depth))}
    return make_spec(freeze=freeze, seed=seed, optim={"lr": lr, "epochs": EPOCHS})


def final_score(depth: int, lr: float) -> float:
    """Highest at a rate of 1e-3 and depth 2."""
    return 0.9 - 0.05 * abs(math.log10(lr) + 3) - 0.01 * abs(depth - 2)


def records(depth: int, lr: float, seed: int, *, noise: float = 0.002) -> list[EpochRecord]:
    """A curve that rises to the final score; deeper freezes take less time."""
    rng = np.random.default_rng([seed, depth, RATES.index(lr)])
    final = final_score(depth, lr) + noise * rng.normal()
    found = []
    for epoch in range(1, EPOCHS + 1):
        score = final - 0.3 * np.exp(-epoch / 3) + 0.2 * noise * rng.normal()
        metrics = {"accuracy": score, "macro_f1": score / 2}
        last = epoch == EPOCHS
        times = {"setup_s": 0.0, "prefix_s": 0.0, "train_s": float(8 - depth), "eval_s": 0.0}
        found.append(
            make_record(epoch=float(epoch), step=13 * epoch, examples_seen=200 * epoch, score=score, metrics=metrics,
                        last=last, trainable_params=1000 - 100 * depth, **times)
        )  # fmt: skip
    return found


def grid_of(seeds: Sequence[int] = (0,)) -> list[TrialSpec]:
    return [spec_of(depth, lr, seed) for depth in DEPTHS for lr in RATES for seed in seeds]


def table(seeds: Sequence[int] = (0,), *, noise: float = 0.002) -> RecordedTrials:
    cells = [(depth, lr, seed) for depth in DEPTHS for lr in RATES for seed in seeds]
    return {spec_of(*cell).trial_id: records(*cell, noise=noise) for cell in cells}


def nothing_known(folder: Path) -> StoredTrials:
    return StoredTrials(ResultStore(folder / "store"))


def resolver(seeds: Sequence[int]) -> Callable[[Point], list[TrialSpec]]:
    """From a point with `freeze.depth` and `optim.lr` to its trials."""

    def resolve(point: Point) -> list[TrialSpec]:
        settings = dict(point.dotted_settings())
        return [spec_of(settings["freeze.depth"], settings["optim.lr"], seed) for seed in seeds]

    return resolve
