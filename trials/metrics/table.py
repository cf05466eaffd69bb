"""Precision, recall and F1 of each label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trials.metrics.counts import Counts, Ids, count
from trials.metrics.spans import count_spans, span_types

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
    return tuple(_rows(names, count(gold, predicted, len(names)), level))


def span_table(gold: Ids, predicted: Ids, starts: Ids, names: tuple[str, ...]) -> tuple[TagScore, ...]:
    """The scores of every type that has a span in gold or in the predictions, sorted.

    Args:
        gold: (words,) ids into `names`.
        predicted: (words,) ids into `names`; -1 for no prediction, which counts as `O`.
        starts: (sentences,) index of each sentence's first word, ascending.
    """
    return tuple(_rows(span_types(names), count_spans(gold, predicted, starts, names), "span"))


def _rows(names: Sequence[str], counts: Counts, level: Level) -> Iterator[TagScore]:
    columns = [values.tolist() for values in (*counts, *counts.shares())]
    for name, occurs, *row in zip(names, counts.occurs.tolist(), *columns, strict=True):
        if occurs:
            yield TagScore(name, level, *row)
