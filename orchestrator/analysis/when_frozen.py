"""Freezing before training against freezing, or unfreezing, while training: loss and saving of each setting.

All settings share a baseline, its seeds and its number of steps, so each one's loss and saved operations stand beside
those of every other.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from orchestrator.analysis.cells import freeze_name, froze_by
from orchestrator.analysis.decide import loss_table
from orchestrator.analysis.rows import COMPLETED
from orchestrator.analysis.savings import FLOPS, savings
from trials.spec import TrialSpec

STATIC, ADAPTIVE, UNFREEZING = "static", "adaptive", "unfreezing"


def when_frozen(frame: pd.DataFrame, specs: Mapping[str, TrialSpec], value: str = "score") -> pd.DataFrame:
    """One row a non-baseline cell, in order of first appearance.

    Columns: `cell`, `setting` (in words), `when` (``static``, ``adaptive``, ``unfreezing``), `froze` (in words,
    empty if static or not recorded), `n_pairs`; `loss`, `loss_low`, `loss_high` as of
    `decide.loss_table`; `saved`, `saved_low`, `saved_high` of the training FLOPs, as of `savings`.

    Args:
        frame: As of `trial_frame`.
        specs: A spec of each cell.
        value: Column of the score.

    Raises:
        ValueError: As of `decide.loss_table` and `savings`.
    """
    lost = loss_table(frame, value)
    saved = savings(frame, [FLOPS])[["cell", "saved", "low", "high"]]
    saved = saved.rename(columns={"low": "saved_low", "high": "saved_high"})
    froze = froze_by(frame[frame["state"] == COMPLETED], "cell")
    table = pd.DataFrame(
        {
            "cell": lost["cell"],
            "setting": [setting_words(specs[cell]) for cell in lost["cell"]],
            "when": [when(specs[cell]) for cell in lost["cell"]],
            "froze": [froze.get(cell, "") for cell in lost["cell"]],
            "n_pairs": lost["n_pairs"],
            "loss": lost["loss"],
            "loss_low": lost["low"],
            "loss_high": lost["high"],
        }
    )
    return table.merge(saved, on="cell", how="left")


def when(spec: TrialSpec) -> str:
    """When what is frozen is decided."""
    if spec.freeze.rule is not None:
        return ADAPTIVE
    return STATIC if spec.thaw_every is None else UNFREEZING


def setting_words(spec: TrialSpec) -> str:
    """What a setting freezes and when, in words."""
    name = freeze_name(spec.freeze.label)
    return name if spec.thaw_every is None else f"gradual unfreezing ({name} at first)"
