"""Small worlds for forecasts: inputs of known sizes, and observations whose seconds follow a known law."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.forecast.history import History, Inputs, Observation, Target
from orchestrator.forecast.work import EncoderSizes, Lengths, PrefixWork, work_of
from tests.builders import first_k, make_spec
from trials.spec import TrialSpec
from trials.starter import model_path, treebank_path

SIZES = EncoderSizes(layers=6, width=128, inner=512, table=1_000_000, table_width=128)
LENGTHS = Lengths(np.arange(5, 60), np.arange(5, 60), np.arange(5, 60), 800, 200, 200)
DEVICE = "cpu of a test"


def spec_of(depth: int = 0, *, model: Path | None = None, **changes: Any) -> TrialSpec:
    """A trial on the bundled sample with `first_k` of a depth, its embeddings frozen where any layer is."""
    bank = treebank_path("UD_English-EWT-sample")
    files = {split: (str(bank / f"{split}.conllu"),) for split in ("train", "dev", "test")}
    optim, path = {"epochs": 3, **changes.pop("optim", {})}, {"path": str(model or model_path())}
    return make_spec(freeze=first_k(depth), data=files, model=path, optim=optim, frozen_dropout=False, **changes)


def observed(
    spec: TrialSpec, rng: np.random.Generator, *, noise: float, launch: str = "one", factor: float = 1.0
) -> Observation:
    """A trial whose seconds are 20 ms a step, 2 ms a giga-operation, times a factor, with noise in the logarithm."""
    work = work_of(spec, SIZES, LENGTHS, gpu=False)
    train_s = 0.02 * work.steps + 0.002 * (work.forward + work.backward)
    eval_s = 0.05 * work.evaluations + 0.002 * work.evaluated
    scale = factor * float(np.exp(rng.normal(0, noise)))
    return Observation(
        spec=spec, work=work, launch=launch, train_s=train_s * scale, eval_s=eval_s * scale,
        setup_s=0.05, prefix_s=0.0, prefix=PrefixWork(0.0, 0.0), ended=1e9,
    )  # fmt: skip


class KnownInputs(Inputs):
    """Inputs of every trial are those of the test."""

    def __init__(self) -> None:
        super().__init__([])

    def of(self, spec: TrialSpec) -> tuple[EncoderSizes, Lengths] | None:
        """The test's."""
        return SIZES, LENGTHS


def history_of(observations: list[Observation]) -> History:
    """A history of these."""
    return History(tuple(observations), Target(DEVICE, 1, 0.0), None)
