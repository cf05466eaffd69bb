"""Metrics over texts, each with one class or one number."""

from __future__ import annotations

import math

import numpy as np

from trials.metrics import pseudo_values
from trials.metrics.counts import Floats, Ids
from trials.metrics.metric import TaskMetric, register
from trials.metrics.pseudo_values import counted
from trials.metrics.tokens import counts_of


def matthews(gold: Ids, predicted: Ids) -> float:
    """Matthews correlation of any number of classes (Gorodkin 2004), -1 to 1; 0 if one side has only one class.

    Args:
        gold: (texts,) ids of the classes.
        predicted: (texts,) ids of the predictions; -1 for none counts as a class that is never right.
    """
    assert gold.shape == predicted.shape
    n_classes = 1 + int(max(gold.max(initial=-1), predicted.max(initial=-1)))
    # Python's integers, as the fourth powers below pass 2**63 at some 50,000 texts.
    support, taken = (np.bincount(ids + 1, minlength=n_classes + 1).tolist() for ids in (gold, predicted))
    n, correct = len(gold), int(np.sum((gold == predicted) & (predicted >= 0)))
    covariance = correct * n - sum(a * b for a, b in zip(support, taken, strict=True))
    spread = (n * n - sum(a * a for a in support)) * (n * n - sum(b * b for b in taken))
    return covariance / math.sqrt(spread) if spread else 0.0


def binary_f1(gold: Ids, predicted: Ids, positive: int) -> float:
    """F1 of one class; 0 if it occurs neither in gold nor in the predictions.

    Args:
        gold: (texts,) ids of the classes.
        predicted: (texts,) ids of the predictions.
    """
    assert gold.shape == predicted.shape
    is_it, taken_for_it = gold == positive, predicted == positive
    n = int(is_it.sum()) + int(taken_for_it.sum())
    return 2 * int((is_it & taken_for_it).sum()) / n if n else 0.0


def pearson(gold: Floats, predicted: Floats) -> float:
    """Pearson correlation of finite numbers (texts,), -1 to 1; 0 if one side is constant."""
    assert gold.shape == predicted.shape
    a, b = _centred(gold), _centred(predicted)
    spread = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.clip(np.dot(a, b) / spread, -1, 1)) if spread else 0.0


def spearman(gold: Floats, predicted: Floats) -> float:
    """Spearman rank correlation, equal numbers sharing their mean rank; arguments as for `pearson`."""
    return pearson(_ranks(gold), _ranks(predicted))


def _centred(values: Floats) -> Floats:
    """(values,) differences from the mean, scaled to at most 1 so that no square of one overflows or vanishes."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) == 0 or (values == values[0]).all():  # a rounded mean would leave the constant a spread
        return np.zeros_like(values)
    scaled = values / np.abs(values).max()
    centred: Floats = scaled - scaled.mean()
    centred /= np.abs(centred).max()
    return centred


def _ranks(values: Floats) -> Floats:
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(times) - (times - 1) / 2)[place], dtype=np.float64)


register(
    TaskMetric(
        "matthews",
        label="Matthews correlation",
        about="Matthews' correlation.",
        group="correlation",
        outputs=frozenset(),  # only of tasks that select by it
        function=lambda split: matthews(split.gold, split.predicted),
        contributions=lambda split: counted(counts_of(split), pseudo_values.matthews),
        lowest=-1.0,
    )
)
register(
    TaskMetric(
        "f1",
        label="F1",
        about="F1 of the positive class.",
        group="label",
        outputs=frozenset({"binary"}),
        function=lambda split: binary_f1(split.gold, split.predicted, split.positive),
        contributions=lambda split: counted(counts_of(split, split.positive), pseudo_values.label_f1(split.positive)),
    )
)
register(
    TaskMetric(
        "pearson",
        label="Pearson correlation",
        about="Pearson's correlation.",
        group="correlation",
        outputs=frozenset({"numbers"}),
        function=lambda split: pearson(split.gold, split.predicted),
        contributions=lambda split: counted(
            pseudo_values.pearson_statistics(split.gold, split.predicted), pseudo_values.pearson
        ),
        lowest=-1.0,
    )
)
register(
    TaskMetric(
        "spearman",
        label="Spearman correlation",
        about="Spearman's rank correlation.",
        group="correlation",
        outputs=frozenset({"numbers"}),
        function=lambda split: spearman(split.gold, split.predicted),
        contributions=lambda split: pseudo_values.spearman_values(split.gold, split.predicted),
        lowest=-1.0,
    )
)
