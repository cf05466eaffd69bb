"""Small worlds for forecasts: inputs of known sizes, and observations whose seconds follow a known law."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.forecast.history import History, Observation, Target
from tests.builders import first_k, make_spec
from trials.prefix.work import forward_passes, scored_items, train_passes
from trials.spec import TrialSpec, steps_an_epoch
from trials.starter import model_path, treebank_path

DEVICE = "cpu of a test"


def spec_of(depth: int = 0, *, model: Path | None = None, **changes: Any) -> TrialSpec:
    """A trial on the bundled sample with `first_k` of a depth, its embeddings frozen where any layer is."""
    bank = treebank_path("UD_English-EWT-sample")
    files = {split: (str(bank / f"{split}.conllu"),) for split in ("train", "dev", "test")} | {"sizes": (800, 200, 200)}
    optim, path = {"epochs": 3, **changes.pop("optim", {})}, {"path": str(model or model_path())}
    return make_spec(freeze=first_k(depth), data=files, model=path, optim=optim, frozen_dropout=False, **changes)


def observed(
    spec: TrialSpec, rng: np.random.Generator, *, noise: float, launch: str = "one", factor: float = 1.0
) -> Observation:
    """A trial whose seconds are 20 ms a step and 1 ms a pass, times a factor, with noise in the logarithm."""
    epochs, trained, scored = spec.optim.epochs, spec.train_size * spec.optim.epochs, scored_items(spec)
    train_s = 0.02 * steps_an_epoch(spec) * epochs + 0.001 * trained * train_passes(spec)
    scale = factor * float(np.exp(rng.normal(0, noise)))
    eval_s = 0.001 * scored * forward_passes(spec) * scale
    return Observation(spec, launch, trained, scored, train_s * scale, eval_s, once_s=0.05)


def seconds(observation: Observation) -> float:
    """Of the whole trial."""
    return observation.train_s + observation.eval_s + observation.once_s


def history_of(observations: list[Observation]) -> History:
    """A history of these."""
    return History(tuple(observations), Target(DEVICE, 1, 0.0))
