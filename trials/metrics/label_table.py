"""The precision, recall and F1 of each label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trials.metrics.contributions import Floats, Ids, label_counts, share
from trials.metrics.metric import PredictedSplit
from trials.metrics.spans import span_counts, span_types

Level = Literal["token", "span", "class"]


@dataclass(frozen=True, slots=True)
class TagScore:
    """How well one label is predicted.

    Attributes:
        tag: The label: a tag, an entity's type, or a class.
        level: What is counted: a ``token`` with its tag, a ``span`` with its type and borders, a text of a ``class``.
        precision, recall, f1: From 0 to 1; 0 if a denominator is 0.
    """

    tag: str
    level: Level
    support: int
    predicted: int
    correct: int
    precision: float
    recall: float
    f1: float


def tag_table(gold: Ids, predicted: Ids, names: tuple[str, ...], level: Level = "token") -> tuple[TagScore, ...]:
    """The scores of every label that occurs in gold or in the predictions, in the order of `names`.

    Args:
        gold: (items,) ids into `names`.
        predicted: (items,) ids into `names`; -1 for no prediction.
        level: What an item is, ``token`` or ``class``.
    """
    return tuple(_rows(names, label_counts(gold, predicted, np.zeros(1, np.int64), len(names))[0], level))


def span_table(gold: Ids, predicted: Ids, starts: Ids, names: tuple[str, ...]) -> tuple[TagScore, ...]:
    """The scores of every type that has a span in gold or in the predictions, sorted.

    Args:
        gold: (words,) ids into `names`.
        predicted: (words,) ids into `names`; -1 for no prediction, which counts as `O`.
        starts: (sentences,) index of each sentence's first word, ascending.
    """
    sums = span_counts(PredictedSplit(gold, predicted, starts, names)).sum(axis=0)
    return tuple(_rows(span_types(names), sums, "span"))


def _rows(names: Sequence[str], sums: Floats, level: Level) -> Iterator[TagScore]:
    """The scores of the labels that occur, by counts (3, labels) of gold, predicted and correct items."""
    support, predicted, correct = sums
    shares = share(correct, predicted), share(correct, support), share(2 * correct, support + predicted)
    columns = [values.tolist() for values in (*sums.astype(np.int64), *shares)]
    for name, in_gold, n_predicted, *row in zip(names, *columns, strict=True):
        if in_gold or n_predicted:
            yield TagScore(name, level, in_gold, n_predicted, *row)
