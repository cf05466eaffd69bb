"""Counts of gold, predicted and correct items, and precision, recall and F1 from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]


class Counts(NamedTuple):
    """How often each label occurs; arrays of (labels,).

    Attributes:
        support: Items with the label in gold.
        predicted: Items with the label in the predictions.
        correct: Items with the label in both.
    """

    support: Ids
    predicted: Ids
    correct: Ids

    @property
    def occurs(self) -> npt.NDArray[np.bool_]:
        """(labels,) whether the label occurs at all, in gold or in the predictions."""
        return (self.support > 0) | (self.predicted > 0)

    def shares(self) -> tuple[Floats, Floats, Floats]:
        """Precision, recall and F1, (labels,) each; 0 if a denominator is 0."""
        f1 = share(2 * self.correct, self.support + self.predicted)
        return share(self.correct, self.predicted), share(self.correct, self.support), f1


def count(gold: Ids, predicted: Ids, n_labels: int) -> Counts:
    """The counts of ids 0 to `n_labels` - 1; an id of -1 is not counted.

    Args:
        gold: (items,) gold labels.
        predicted: (items,) predicted labels.
    """
    assert gold.shape == predicted.shape
    correct = gold[gold == predicted]
    return Counts(*(np.bincount(ids[ids >= 0], minlength=n_labels) for ids in (gold, predicted, correct)))


def share(part: npt.ArrayLike, whole: npt.ArrayLike) -> Floats:
    """Parts divided by wholes; 0 where the whole is 0."""
    above, below = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)
