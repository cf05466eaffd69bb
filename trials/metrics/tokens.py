"""Metrics over words or texts, each with one label."""

from __future__ import annotations

import numpy as np

from trials.metrics import pseudo_values
from trials.metrics.counts import Floats, Ids, count
from trials.metrics.metric import PredictedSplit, TaskMetric, register
from trials.metrics.pseudo_values import counted, label_counts


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


def correct_words(split: PredictedSplit) -> Floats:
    """(examples,) correct words of each, over the mean words of an example; their mean is the accuracy."""
    correct = (split.gold == split.predicted) & (split.predicted >= 0)
    per_example = np.add.reduceat(correct.astype(np.float64), split.starts)
    contributions: Floats = per_example / (len(split.gold) / len(split.starts))
    return contributions


def counts_of(split: PredictedSplit, least: int = 0) -> Floats:
    """(examples, 3, labels) counts of each example, of all ids up to the largest that occurs, or to `least`."""
    n_labels = 1 + int(max(split.gold.max(initial=least), split.predicted.max(initial=least)))
    return label_counts(split.gold, split.predicted, split.starts, n_labels)


register(
    TaskMetric(
        "accuracy",
        label="accuracy",
        about="Share of correct labels.",
        group="label",
        outputs=frozenset({"tags", "classes", "binary"}),
        function=lambda split: accuracy(split.gold, split.predicted),
        contributions=correct_words,
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
        contributions=lambda split: counted(counts_of(split), pseudo_values.macro_f1),
    )
)
