"""Metrics over words or texts, each with one label."""

from __future__ import annotations

import numpy as np

from trials.metrics.counts import Ids, count
from trials.metrics.metric import TaskMetric, register


def accuracy(gold: Ids, predicted: Ids) -> float:
    """Share of words whose label is predicted correctly; 0 without words.

    Args:
        gold: (words,) ids of the labels; -1 for a label that is not one of the names.
        predicted: (words,) ids of the predictions; -1 for none, which is an error even if gold is -1 as well.
    """
    assert gold.shape == predicted.shape
    return float(np.mean((gold == predicted) & (predicted >= 0))) if len(gold) else 0.0


def macro_f1(gold: Ids, predicted: Ids) -> float:
    """Mean F1 of the labels that occur in gold or in the predictions, 0 if none does; arguments as for `accuracy`.

    Every tag counts as a label of its own: `B-LOC`, `I-LOC` and `O`. For the mean over entity types see
    `trials.metrics.spans`.
    """
    counts = count(gold, predicted, n_labels=1 + int(max(gold.max(initial=-1), predicted.max(initial=-1))))
    _, _, f1 = counts.shares()
    return float(f1[counts.occurs].mean()) if counts.occurs.any() else 0.0


register(
    TaskMetric(
        "accuracy",
        label="accuracy",
        about="Share of correct labels.",
        group="label",
        outputs=frozenset({"tags", "classes", "binary"}),
        function=lambda split: accuracy(split.gold, split.predicted),
    )
)
register(
    TaskMetric(
        "macro_f1",
        label="macro F1",
        about="Mean F1 of all labels.",
        group="label",
        outputs=frozenset({"tags", "classes"}),
        function=lambda split: macro_f1(split.gold, split.predicted),
    )
)
