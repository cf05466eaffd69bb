"""The evidence of a sweep as the frame that analyses take: its trials, with the stored values of each sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trials.record import MEASURED
from trials.spec import TrialSpec

if TYPE_CHECKING:
    import pandas as pd


TRIAL_COLUMNS = (
    "trial_id", "attempt", "state", "device", "gpus", "threads", "accumulation", "worker_slots", "padding_free",
    "step_mode", "dev_cut_off", "train_cut_off", *MEASURED,
)  # fmt: skip
"""Columns of the store's `trials` table that a frame is made of."""
SENTENCE_COLUMNS = {"sentences": "values", "documents": "documents", "words": "words"}
"""Columns of a frame with a value a sentence, and what the store calls them (`schema.CONTRIBUTIONS`)."""


class Evidence(NamedTuple):
    """The trials of a sweep.

    Attributes:
        frame: As of `trial_frame`, with the `SENTENCE_COLUMNS` of dev.
        specs: One spec of each cell.
    """

    frame: pd.DataFrame
    specs: dict[str, TrialSpec]


def evidence_of(specs: Sequence[TrialSpec], trials: pa.Table, contributions: pa.Table) -> Evidence:
    """The planned trials of a sweep, with what is stored of them: rows with `TRIAL_COLUMNS`, and contributions."""
    from orchestrator.analysis.trial_frame import trial_frame, with_sentences  # loads pandas

    frame = with_sentences(trial_frame(specs, trials.to_pylist()), sentence_columns(contributions, "dev"))
    return Evidence(frame, {spec.cell_id: spec for spec in reversed(specs)})


def sentence_columns(contributions: pa.Table, split: str) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """The columns of `trial_frame.with_sentences` -> trial id -> (sentences,), from rows of `schema.CONTRIBUTIONS`."""
    of_split = contributions.filter(pc.equal(contributions["split"], split))
    columns = dict[str, dict[str, npt.NDArray[Any]]]()
    for name, column in SENTENCE_COLUMNS.items():
        rows = of_split.filter(pc.is_valid(of_split[column]))
        lists = zip(rows["trial_id"].to_pylist(), rows[column], strict=True)
        columns[name] = {trial_id: values.values.to_numpy() for trial_id, values in lists}
    return columns
