"""What a sweep of a store shows, as the frame that the analyses take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.analysis.cells import TRIAL_COLUMNS
from orchestrator.store.results import ResultStore
from trials.spec import TrialSpec

if TYPE_CHECKING:
    import pandas as pd


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


def evidence(store: ResultStore, specs: Sequence[TrialSpec]) -> Evidence:
    """The planned trials of a sweep, with what the store holds of them. Raises StoreError."""
    from orchestrator.analysis.trial_frame import trial_frame, with_sentences  # loads pandas

    frame = trial_frame(specs, store.trials(list(TRIAL_COLUMNS)).to_pylist())
    by_cell = {spec.cell_id: spec for spec in reversed(specs)}
    rows = store.contributions()
    return Evidence(with_sentences(frame, sentence_columns(rows, "dev")), by_cell)


def sentence_columns(contributions: pa.Table, split: str) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """For `trial_frame.with_sentences`: its columns by trial id, from rows of `schema.CONTRIBUTIONS`."""
    of_split = contributions.filter(pc.equal(contributions["split"], split))
    found = dict[str, dict[str, npt.NDArray[Any]]]()
    for name, column in SENTENCE_COLUMNS.items():
        rows = of_split.filter(pc.is_valid(of_split[column]))
        lists = zip(rows["trial_id"].to_pylist(), rows[column], strict=True)
        found[name] = {trial_id: values.values.to_numpy() for trial_id, values in lists}
    return found


def stored_sentences(store: ResultStore) -> dict[str, dict[str, dict[str, npt.NDArray[Any]]]]:
    """All that a store has of its sentences: trial id -> split -> those of `SENTENCE_COLUMNS` that are known.

    Raises StoreError.
    """
    rows, found = store.contributions(), dict[str, dict[str, dict[str, npt.NDArray[Any]]]]()
    for split in pc.unique(rows["split"]).to_pylist():
        for name, of_trials in sentence_columns(rows, split).items():
            for trial_id, values in of_trials.items():
                found.setdefault(trial_id, {}).setdefault(split, {})[name] = values
    return found
