"""Counts of gold, predicted and correct items, and the shares that follow from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]


class Counts(NamedTuple):
    """How often each label occurs, an array of (labels,) each.

    Attributes:
        support: Items that are the label.
        predicted: Items that were taken for it.
        correct: Items that are both.
    """

    support: Ids
    predicted: Ids
    correct: Ids

    @property
    def occurs(self) -> npt.NDArray[np.bool_]:
        """(labels,) whether the label occurs at all, in gold or in the predictions."""
        return (self.support > 0) | (self.predicted > 0)

    def shares(self) -> tuple[Floats, Floats, Floats]:
        """Precision, recall and F1 of (labels,) each; 0 where a share is of nothing."""
        f1 = share(2 * self.correct, self.support + self.predicted)
        return share(self.correct, self.predicted), share(self.correct, self.support), f1


def count(gold: Ids, predicted: Ids, n_labels: int) -> Counts:
    """The counts of ids 0 to `n_labels` - 1; an id of -1 is no label and is not counted.

    Args:
        gold: (items,) what the items are.
        predicted: (items,) what they were taken for.
        n_labels: Number of labels.
    """
    assert gold.shape == predicted.shape
    correct = gold[gold == predicted]
    return Counts(*(np.bincount(ids[ids >= 0], minlength=n_labels) for ids in (gold, predicted, correct)))


def share(part: npt.ArrayLike, whole: npt.ArrayLike) -> Floats:
    """Parts of wholes, 0 where the whole is 0."""
    above, below = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)
