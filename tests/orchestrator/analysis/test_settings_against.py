"""Settings that are no freeze of one encoder: an adapter beside its baseline, depths of several encoders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.analysis.comparisons import across_models, settings_against
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.trial_frame import trial_frame
from tests.builders import first_k, make_spec
from tests.orchestrator.analysis.frames import row_of
from trials.spec import TrialSpec

SEEDS = range(8)
MODELS = {"large": 0.90, "small": 0.80}
DEPTHS = {0: 0.0, 2: 0.004}  # loss by depth
FLOPS = {"large": 100.0, "small": 40.0}


def spec_of(model: str, depth: int, seed: int, **changes: Any) -> TrialSpec:
    return make_spec(model={"name": model, "revision": model}, freeze=first_k(depth), seed=seed, **changes)


def frame_of(scores: Mapping[TrialSpec, float], flops: Mapping[TrialSpec, float]) -> pd.DataFrame:
    rows = [row_of(spec, score, training_flops=flops[spec]) for spec, score in scores.items()]
    return trial_frame(list(scores), rows)


def several(small: float = MODELS["small"]) -> tuple[pd.DataFrame, dict[str, TrialSpec]]:
    rng = np.random.default_rng(0)
    scores = MODELS | {"small": small}
    specs = [spec_of(model, depth, seed) for model in MODELS for depth in DEPTHS for seed in SEEDS]
    found = {s: scores[s.model.name] - DEPTHS[s.freeze.depth] + 2e-4 * rng.standard_normal() for s in specs}
    flops = {s: FLOPS[s.model.name] * (1 - 0.15 * s.freeze.depth) for s in specs}
    return frame_of(found, flops), {spec.cell_id: spec for spec in specs}


def test_the_answer_over_several_encoders_names_the_most_saving_pair_within_the_tolerance_of_the_best() -> None:
    close = across_models(*several(small=0.899), DecisionPlan(tolerance=1.0))
    far = across_models(*several(), DecisionPlan(tolerance=1.0))
    assert close is not None
    assert far is not None
    assert [each.freeze for each in (close, far)] == ["small first 2 + embeddings", "large first 2 + embeddings"]
    assert close.setup == "against large none"
    settings = {"large first 2 + embeddings", "small none", "small first 2 + embeddings"}
    losses = {row["freeze"]: row["loss"] for row in far.settings}
    assert {row["freeze"] for row in close.settings} == settings == losses.keys()
    assert losses["small none"] > 9  # which rules out no depth of the better one
    frame, specs = several()
    assert across_models(frame[frame["model"] == "large"], specs) is None


def test_an_adapter_has_the_interval_that_it_has_alone_against_the_full_training() -> None:
    rng = np.random.default_rng(1)
    full = [spec_of("large", 0, seed) for seed in SEEDS]
    adapters = [spec_of("large", 0, seed, lora={"rank": 8}) for seed in SEEDS]
    scores = {s: 0.9 - 0.02 * (s.lora is not None) + 1e-3 * rng.standard_normal() for s in (*full, *adapters)}
    frame = frame_of(scores, {s: 100.0 - 30 * (s.lora is not None) for s in scores})
    (row,) = settings_against(frame, full[0].cell_id)
    assert (row["n_pairs"], round(row["loss"]), round(row["saved_flops"], 2)) == (8, 2, 0.3)
    assert row["low"] < row["loss"] < row["high"]
    assert row["verdict"] == "shown to lose more"
