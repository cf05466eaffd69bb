"""What changed while training is said in words: of gradual unfreezing, and of stored trials with a rule."""

from __future__ import annotations

from typing import Any

import pandas as pd

from orchestrator.analysis.answer import freeze_yaml
from orchestrator.analysis.freeze_names import (
    freeze_changes,
    freeze_changes_by,
    freeze_name,
    layer_strip,
    parts,
    strip_and_word,
)
from orchestrator.analysis.trial_frame import trial_frame
from tests.builders import make_spec
from tests.examples import each
from tests.orchestrator.analysis.frames import row_of
from trials.spec import FreezeSpec, TrialSpec

RULE: dict[str, Any] = {
    "strategy": "adaptive", "layers": (), "embeddings": False,
    "rule": {"name": "gradient_norm", "intervals": 10, "percentile": 50.0},
}  # fmt: skip
FIRST: dict[str, Any] = {"strategy": "first_k", "layers": (0, 1), "embeddings": True}
NOTHING: dict[str, Any] = {"strategy": "none", "layers": (), "embeddings": False}


def frame_and_specs() -> tuple[pd.DataFrame, dict[str, TrialSpec]]:
    specs, rows = [], []
    for freeze, ended in ((NOTHING, 0), (RULE, 4)):
        for seed in range(3):
            specs.append(make_spec(freeze=freeze, seed=seed))
            rows.append(row_of(specs[-1], 0.9, frozen_layers=ended, mean_frozen_layers=1.0 + seed))
    return trial_frame(specs, rows), {spec.cell_id: spec for spec in specs}


def test_a_rule_is_called_by_its_words_wherever_a_setting_is_named() -> None:
    freeze = FreezeSpec.model_validate(RULE)
    assert freeze_name(freeze, 6) == strip_and_word(freeze, 6) == "adaptive (gradient norm)"
    assert layer_strip(freeze, 6) == ""
    assert parts(freeze, 6) == "layers while training (rule: gradient norm)"
    written = freeze_yaml(freeze, 6)
    assert written == (
        'trial:\n  freeze: {strategy: adaptive, rule: {"name": "gradient_norm", "intervals": 10, "percentile": 50.0}}\n'
    )


@each(
    "freeze, ended, mean, words",
    [
        (RULE, 4, 3.2, "froze 0 to 4 of 6 layers, 3.2 on average over steps"),
        (RULE, 0, 0.0, "froze 0 of 6 layers throughout"),
        (RULE, 4, None, "froze 0 to 4 of 6 layers"),
        (RULE, None, None, ""),
        (FIRST, 2, 2.0, ""),
        (FIRST, 1, 1.5, "froze 2 to 1 of 6 layers, 1.5 on average over steps"),
    ],
)
def test_what_a_trial_froze_is_said_where_it_changed(
    freeze: dict[str, Any], ended: int | None, mean: float | None, words: str
) -> None:
    assert freeze_changes(make_spec(freeze=freeze), {"frozen_layers": ended, "mean_frozen_layers": mean}) == words


def test_seeds_that_ended_at_different_depths_are_told_apart() -> None:
    frame, specs = frame_and_specs()
    frame.loc[frame["strategy"] == "adaptive", "frozen_layers"] = [2, 4, 4]
    (words,) = (freeze_changes_by(frame, "cell")[cell] for cell, spec in specs.items() if spec.freeze.rule)
    assert words == "froze 0 to 4 of 6 layers (2 to 4 at the end), 2.0 on average over steps"
