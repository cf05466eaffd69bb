"""What changed while training is said in words: of gradual unfreezing."""

from __future__ import annotations

from typing import Any

from orchestrator.analysis.freeze_names import freeze_changes, freeze_changes_by
from orchestrator.analysis.trial_frame import trial_frame
from tests.builders import make_spec
from tests.examples import each
from tests.orchestrator.analysis.frames import row_of

FIRST: dict[str, Any] = {"strategy": "first_k", "layers": (0, 1), "embeddings": True}


@each(
    "freeze, ended, mean, words",
    [
        (FIRST, 0, None, "froze 2 to 0 of 6 layers"),
        (FIRST, None, None, ""),
        (FIRST, 2, 2.0, ""),
        (FIRST, 1, 1.5, "froze 2 to 1 of 6 layers, 1.5 on average over steps"),
    ],
)
def test_what_a_trial_froze_is_said_where_it_changed(
    freeze: dict[str, Any], ended: int | None, mean: float | None, words: str
) -> None:
    assert freeze_changes(make_spec(freeze=freeze), {"frozen_layers": ended, "mean_frozen_layers": mean}) == words


def test_seeds_that_ended_at_different_depths_are_told_apart() -> None:
    specs = [make_spec(freeze=FIRST, seed=seed) for seed in range(3)]
    rows = [row_of(spec, 0.9, frozen_layers=n, mean_frozen_layers=1.0 + n) for n, spec in enumerate(specs)]
    (words,) = freeze_changes_by(trial_frame(specs, rows), "cell").values()
    assert words == "froze 2 to 0 of 6 layers (0 to 1 at the end), 1.5 on average over steps"
