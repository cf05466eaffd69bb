"""Small worlds for forecasts: inputs of known sizes, and timings that follow a known law."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator.forecast.pilot import TrialTime, work_passes
from tests.builders import first_k, make_spec
from trials.spec import TrialSpec, steps_an_epoch
from trials.starter import model_path, treebank_path


def spec_of(depth: int = 0, *, model: Path | None = None, **changes: Any) -> TrialSpec:
    """A trial on the bundled sample with `first_k` of a depth, its embeddings frozen where any layer is."""
    bank = treebank_path("UD_English-EWT-sample")
    files = {split: (str(bank / f"{split}.conllu"),) for split in ("train", "dev", "test")} | {"sizes": (800, 200, 200)}
    optim, path = {"epochs": 3, **changes.pop("optim", {})}, {"path": str(model or model_path())}
    return make_spec(freeze=first_k(depth), data=files, model=path, optim=optim, frozen_dropout=False, **changes)


def timed(spec: TrialSpec) -> TrialTime:
    """A trial of 20 ms a step and 1 ms a pass, set up in 50 ms."""
    seconds = 0.02 * steps_an_epoch(spec) * spec.optim.epochs + 0.001 * work_passes(spec)
    return TrialTime(spec, work_passes(spec), seconds, once_s=0.05)
