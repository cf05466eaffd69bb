"""Comparisons beside those of freezes: what is no freeze against a baseline, and several encoders with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from orchestrator.analysis.answer import Answer, answer_to, setting_rows, with_each_saving
from orchestrator.analysis.decide import decide
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.freeze_names import freeze_name
from orchestrator.analysis.rows import COMPLETED
from trials.spec import TrialSpec


def settings_against(frame: pd.DataFrame, baseline: str, plan: DecisionPlan | None = None) -> Iterator[dict[str, Any]]:
    """What is no freeze of a baseline's encoder, such as an adapter, against that cell: rows as of `Answer.settings`.

    Each has an interval of its own, as no search chooses among them.

    Args:
        frame: As of `trial_frame`, of one objective group; `freeze` is what a row is called.
    """
    for cell in frame["cell"].unique():
        if cell != baseline:
            rows = frame[frame["cell"].isin((cell, baseline))].assign(baseline=baseline)
            yield from setting_rows(with_each_saving(decide(rows, plan), rows))


def across_models(
    frame: pd.DataFrame, specs: Mapping[str, TrialSpec], plan: DecisionPlan | None = None
) -> Answer | None:
    """One answer over several encoders: every depth of each against the best baseline; None before two have one.

    All losses are one family of intervals. The best baseline is picked by its mean on dev, so that losses against it
    are rather too large than too small.

    Args:
        frame: As of `trial_frame`, of one objective group.

    Raises:
        ValueError: As of `decide`.
    """
    own = frame[(frame["cell"] == frame["baseline"]) & (frame["state"] == COMPLETED)]
    means = own.groupby("cell")["score"].mean()
    if len(means) < 2:
        return None
    best = str(means.idxmax())  # by dev: test selects nothing
    names = {
        cell: f"{spec.model.name} {freeze_name(spec.freeze.label, spec.model.n_layers)}" for cell, spec in specs.items()
    }
    rows = frame.assign(baseline=best, freeze=frame["cell"].map(names), setup=f"against {names[best]}")
    return replace(answer_to(rows, specs, decide(rows, plan)), model=" or ".join(frame["model"].unique()))
