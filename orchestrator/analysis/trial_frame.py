"""The tidy frame that every analysis takes: one row a trial, with its cell, its seed and what it measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.at_best import with_own_rates
from orchestrator.analysis.cells import MEASURED, cell_columns, setup_labels
from orchestrator.analysis.cells import MEMORY as MEMORY
from orchestrator.analysis.cells import SAVED as SAVED
from orchestrator.analysis.cells import TRAINING_COST as TRAINING_COST
from orchestrator.analysis.collapse import has_collapsed
from orchestrator.analysis.rows import numbers
from trials.spec import TrialSpec

# Columns in which two trials must agree for a measured cost to compare, and what their values are called.
CONDITIONS = {
    "device": "devices",
    "gpus": "shares of a GPU",
    "threads": "threads",
    "accumulation": "numbers of parts of a batch",
    "worker_slots": "numbers of trials at the same time",
    "padding_free": "kinds of batches (1 without padding, 0 padded)",
}


def trial_frame(specs: Sequence[TrialSpec], rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row a spec, in their order; a trial without a row in the store has no state.

    Columns: those of `cells.cell_columns`, `setup` (see `cells.setup_labels`), `trial_id`, `seed` (`Seeds.key`),
    `state`, `CONDITIONS`, `score` (best on dev), `test_score`, `cells.MEASURED` in the store's units (float, NaN if not
    recorded), `training_cost_s`, `collapsed` (1 or 0, NaN if not recorded).
    """
    by_id = {row["trial_id"]: row for row in rows}
    shared: dict[str, dict[str, object]] = {}  # a cell's columns are the same for all of its seeds
    records = []
    for spec in specs:
        columns = shared.get(spec.cell_id)
        if columns is None:
            columns = shared.setdefault(spec.cell_id, cell_columns(spec))
        row = by_id.get(spec.trial_id, {})
        measured = {name: row.get(name) for name in ("state", *CONDITIONS, *MEASURED)}
        records.append({**columns, "trial_id": spec.trial_id, "seed": spec.seeds.key, **measured})
    setups = setup_labels({spec.cell_id: spec for spec in specs})
    frame = pd.DataFrame(records)
    for name in (*MEASURED, *(name for name in CONDITIONS if name != "device")):
        frame[name] = frame[name].astype("float64") if len(frame) else pd.Series(dtype="float64")
    frame["padding_free"] = frame["padding_free"].fillna(0.0)  # older trials padded their batches
    frame = frame.rename(columns={"best_score": "score"})
    if len(frame):
        frame["setup"] = frame["cell"].map(setups)
        frame = with_own_rates(frame, {spec.cell_id: spec for spec in specs})
    return with_collapses(with_costs(frame))


def with_costs(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with `training_cost_s`, and without what was recorded as the peak memory of trials on a CPU.

    The training cost is `train_s` + `prefix_s`: seconds of optimiser steps and of the frozen states that they start
    from. A trial that used no stored states has no `prefix_s` and pays nothing for them.

    Memory that a store recorded on a CPU is the resident memory of a worker that had run other trials before.
    """
    prefix = np.nan_to_num(numbers(frame, "prefix_s")) if "prefix_s" in frame.columns else 0.0
    frame = frame.assign(**{TRAINING_COST: numbers(frame, "train_s") + prefix})
    if MEMORY in frame.columns and len(frame):
        frame[MEMORY] = np.where(on_cpu(frame), np.nan, numbers(frame, MEMORY))
    return frame


def on_cpu(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """(trials,) whether each ran on a CPU; False where the device is unknown."""
    found: npt.NDArray[np.bool_] = frame["device"].astype("str").str.startswith("cpu", na=False).to_numpy(dtype=bool)
    return found


def with_collapses(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with `collapsed`: 1 for a trial that learned nothing, 0 for another, NaN if that was not recorded."""
    names = ("score", "constant_score", "loss_fall")
    values = (numbers(frame, name) if name in frame.columns else np.full(len(frame), np.nan) for name in names)
    return frame.assign(collapsed=has_collapsed(*values))


def with_sentences(frame: pd.DataFrame, columns: Mapping[str, Mapping[str, np.ndarray | None]]) -> pd.DataFrame:
    """The frame with `sentences`, what each sentence contributes to the trial's score, `documents`, the document of
    each, from 0, and `words`, those of each where the score is a share of all words.

    `columns` has them by name and trial id; None stands where they are not known.
    """
    known = {name: columns.get(name, {}) for name in ("sentences", "documents", "words")}
    return frame.assign(
        **{
            name: pd.Series([of.get(i) for i in frame["trial_id"]], index=frame.index, dtype=object)
            for name, of in known.items()
        }
    )
