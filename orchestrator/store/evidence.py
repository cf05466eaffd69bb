"""What a sweep of a store shows, as the frame that the analyses take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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
Documents = Mapping[str, npt.NDArray[np.int32]]
"""Split -> (sentences,) the document of each, from 0; without splits of which the corpus knows none."""


class Evidence(NamedTuple):
    """The trials of a sweep.

    Attributes:
        frame: As of `trial_frame`, with `sentences` and `documents` (of dev).
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
    return Evidence(with_sentences(frame, sentences_of(rows, "dev"), documents_of(rows, "dev")), by_cell)


def sentences_of(contributions: pa.Table, split: str) -> dict[str, npt.NDArray[np.float32]]:
    """What each sentence of a split contributes to the score, by trial id, from rows of `schema.CONTRIBUTIONS`."""
    return _lists(contributions, split, "values")


def documents_of(contributions: pa.Table, split: str) -> dict[str, npt.NDArray[np.int32]]:
    """The document of each sentence of a split, by trial id, from the same rows; trials without any are left out."""
    return _lists(contributions, split, "documents")


def _lists(contributions: pa.Table, split: str, column: str) -> dict[str, npt.NDArray[Any]]:
    rows = contributions.filter(pc.and_(pc.equal(contributions["split"], split), pc.is_valid(contributions[column])))
    ids = rows["trial_id"].to_pylist()
    return {i: values.values.to_numpy() for i, values in zip(ids, rows[column], strict=True)}


def stored_contributions(store: ResultStore) -> dict[str, Contributions]:
    """By trial id, all that a store has. Raises StoreError."""
    return _by_split(store, sentences_of)


def stored_documents(store: ResultStore) -> dict[str, Documents]:
    """The documents of the same sentences, by trial id. Raises StoreError."""
    return _by_split(store, documents_of)


def _by_split(
    store: ResultStore, lists_of: Callable[[pa.Table, str], Mapping[str, npt.NDArray[Any]]]
) -> dict[str, Mapping[str, npt.NDArray[Any]]]:
    rows, found = store.contributions(), dict[str, dict[str, npt.NDArray[Any]]]()
    for split in pc.unique(rows["split"]).to_pylist():
        for trial_id, values in lists_of(rows, split).items():
            found.setdefault(trial_id, {})[split] = values
    return dict(found)
