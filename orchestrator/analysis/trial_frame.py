"""The tidy frame that every analysis takes: one row a trial, with its cell, its seed and what it measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.analysis.cells import MEASURED, cell_columns
from orchestrator.analysis.rows import numbers
from trials.spec import TrialSpec

TRAINING_COST = "training_cost_s"


def trial_frame(specs: Sequence[TrialSpec], rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row a spec, in their order; a trial without a row in the store has no state.

    Columns: those of `cells.cell_columns`, `trial_id`, `seed`, `state`, `device`, `score` (best on dev), `test_score`,
    `cells.MEASURED` in the store's units (float, NaN if not recorded), `training_cost_s`.
    """
    by_id = {row["trial_id"]: row for row in rows}
    shared: dict[str, dict[str, object]] = {}  # a cell's columns are the same for all of its seeds
    records = []
    for spec in specs:
        columns = shared.get(spec.cell_id)
        if columns is None:
            columns = shared.setdefault(spec.cell_id, cell_columns(spec))
        row = by_id.get(spec.trial_id, {})
        measured = {name: row.get(name) for name in ("state", "device", *MEASURED)}
        records.append({**columns, "trial_id": spec.trial_id, "seed": spec.seed, **measured})
    frame = pd.DataFrame(records)
    for name in MEASURED:
        frame[name] = frame[name].astype("float64") if len(frame) else pd.Series(dtype="float64")
    return with_training_cost(frame.rename(columns={"best_score": "score"}))


def with_training_cost(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with `training_cost_s`: seconds of optimiser steps and of the frozen states that they start from.

    It is `train_s` + `prefix_s`; a trial that used no stored states has no `prefix_s` and pays nothing for them.
    """
    prefix = np.nan_to_num(numbers(frame, "prefix_s")) if "prefix_s" in frame.columns else 0.0
    return frame.assign(**{TRAINING_COST: numbers(frame, "train_s") + prefix})
