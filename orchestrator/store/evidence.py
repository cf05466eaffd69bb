"""What a sweep of a store shows, as the frame that the analyses take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.analysis.cells import TRIAL_COLUMNS
from orchestrator.store.results import ResultStore
from trials.spec import TrialSpec

if TYPE_CHECKING:
    import pandas as pd


Contributions = Mapping[str, npt.NDArray[np.float32]]
"""Split -> (sentences,) what each contributes to the score of a trial; without splits where that is not known."""


class Evidence(NamedTuple):
    """The trials of a sweep.

    Attributes:
        frame: As of `trial_frame`, with `sentences` (of dev).
        specs: One spec of each cell.
    """

    frame: pd.DataFrame
    specs: dict[str, TrialSpec]


def evidence(store: ResultStore, specs: Sequence[TrialSpec]) -> Evidence:
    """The planned trials of a sweep, with what the store holds of them. Raises StoreError."""
    from orchestrator.analysis.trial_frame import trial_frame, with_sentences  # loads pandas

    frame = trial_frame(specs, store.trials(list(TRIAL_COLUMNS)).to_pylist())
    by_cell = {spec.cell_id: spec for spec in reversed(specs)}
    return Evidence(with_sentences(frame, sentences_of(store.contributions(), "dev")), by_cell)


def sentences_of(contributions: pa.Table, split: str) -> dict[str, np.ndarray]:
    """What each sentence of a split contributes to the score, by trial id, from rows of `schema.CONTRIBUTIONS`."""
    rows = contributions.filter(pc.equal(contributions["split"], split))
    ids = rows["trial_id"].to_pylist()
    return {i: values.values.to_numpy() for i, values in zip(ids, rows["values"], strict=True)}


def stored_contributions(store: ResultStore) -> dict[str, Contributions]:
    """By trial id, all that a store has. Raises StoreError."""
    rows, found = store.contributions(), dict[str, dict[str, npt.NDArray[np.float32]]]()
    for split in pc.unique(rows["split"]).to_pylist():
        for trial_id, values in sentences_of(rows, split).items():
            found.setdefault(trial_id, {})[split] = values
    return dict(found)
