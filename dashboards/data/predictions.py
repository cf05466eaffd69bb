"""Confusion of labels and errors of entities, from stored predictions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dashboards.data.frames import Snapshot
from trials.metrics.spans import PREFIXES, spans

CUT_OFF = "(cut off)"  # for words beyond the maximum input length, which have no prediction
Ids = npt.NDArray[np.int64]


class PredictedLabels(NamedTuple):
    """Gold and predicted labels of one split of one trial, per word (or one per text in classification).

    Attributes:
        gold, predicted: (words,) ids into `names`; -1 for no prediction.
        starts: (sentences,) index of each one's first word.
    """

    names: tuple[str, ...]
    gold: Ids
    predicted: Ids
    starts: Ids


class EntityErrors(NamedTuple):
    """Counts of spans; each gold and each predicted span is counted once.

    Attributes:
        correct: Same type and boundaries.
        wrong_type: Same boundaries, another type.
        wrong_boundary: Same type and a shared word, other boundaries.
        missed: Remaining gold spans.
        spurious: Remaining predicted spans.
    """

    correct: int
    wrong_type: int
    wrong_boundary: int
    missed: int
    spurious: int


def predictions_of(snapshot: Snapshot, trials: pd.DataFrame, split: str) -> dict[str, PredictedLabels]:
    """The stored predictions of some trials, by trial id; trials without any are left out. Raises StoreError."""
    rows = snapshot.few["predictions"].of(trials)
    rows = rows.filter(pc.equal(rows["split"], split))
    ids = rows["trial_id"].unique().to_pylist()
    return {trial_id: _read(rows.filter(pc.equal(rows["trial_id"], trial_id))) for trial_id in ids}


def _read(rows: pa.Table) -> PredictedLabels:
    rows = rows.sort_by("sentence")
    gold, predicted = (pc.list_flatten(rows[side].combine_chunks()) for side in ("gold", "predicted"))
    names = tuple(sorted(set(pc.unique(gold).to_pylist()) | set(pc.unique(predicted).to_pylist()) - {None}))
    name_array = pa.array(names, pa.string())
    lengths = pc.list_value_length(rows["gold"]).to_numpy().astype(np.int64)
    return PredictedLabels(names, _ids(gold, name_array), _ids(predicted, name_array), np.cumsum(lengths) - lengths)


def _ids(labels: pa.Array, names: pa.Array) -> Ids:
    ids: Ids = pc.fill_null(pc.index_in(labels, names), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return ids


def confusion(labels: PredictedLabels) -> pd.Series:
    """Counts by (`gold`, `predicted`)."""
    names = np.array([*labels.names, CUT_OFF], dtype=object)  # -1 indexes the last
    n = len(names)
    counts = np.bincount((labels.gold % n) * n + labels.predicted % n, minlength=n * n)
    at = np.flatnonzero(counts)
    index = pd.MultiIndex.from_arrays([names[at // n], names[at % n]], names=["gold", "predicted"])
    return pd.Series(counts[at], index=index, name="count")


def has_spans(labels: PredictedLabels) -> bool:
    """Whether the labels mark spans (B- and I- tags)."""
    return any(name[:2] in PREFIXES for name in labels.names)


def entity_errors(labels: PredictedLabels) -> EntityErrors:
    """Counts of entity errors; spans are strict IOB2, as in the scores.

    Spans are matched one to one in this order: same type and boundaries; same boundaries; same type and a shared word,
    from left to right. Spans that share only a word count as one missed and one spurious span.
    """
    gold_spans, predicted_spans = (spans(side, labels.starts, labels.names) for side in (labels.gold, labels.predicted))
    size = len(labels.gold) + 1
    ours, theirs = (
        side[:, 1] * size + side[:, 2] for side in (gold_spans, predicted_spans)
    )  # a number for each start and end
    _, at, to = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    correct = int((gold_spans[at, 0] == predicted_spans[to, 0]).sum())
    gold, predicted = np.delete(gold_spans, at, axis=0), np.delete(predicted_spans, to, axis=0)
    moved = sum(_moved(gold[gold[:, 0] == kind], predicted[predicted[:, 0] == kind]) for kind in np.unique(gold[:, 0]))
    return EntityErrors(correct, len(at) - correct, moved, len(gold) - moved, len(predicted) - moved)


def _moved(gold: Ids, predicted: Ids) -> int:
    """How many spans (type, start, end) of one type, in order, share a word with one of the other side, one to one."""
    count = i = j = 0
    ours, theirs = gold[:, 1:].tolist(), predicted[:, 1:].tolist()
    while i < len(ours) and j < len(theirs):
        if ours[i][1] <= theirs[j][0]:
            i += 1
        elif theirs[j][1] <= ours[i][0]:
            j += 1
        else:
            count, i, j = count + 1, i + 1, j + 1
    return count
