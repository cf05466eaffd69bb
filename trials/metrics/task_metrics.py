"""The metrics of the built-in tasks, over words, spans, texts and numbers, and the table of precision and recall.

The order of their registration is that of the store's columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal, NamedTuple

import numpy as np

from trials.metrics import metric
from trials.metrics.metric import (
    Counts,
    Floats,
    Ids,
    PredictedSplit,
    Score,
    TaskMetric,
    count,
    count_items,
    counted,
    label_counts,
    register,
    share,
)

# Metrics over words or texts, each with one label.


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
    `trials.metrics.task_metrics`.
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
        per_word=True,
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
        contributions=lambda split: counted(counts_of(split), metric.macro_f1),
    )
)


# Metrics over spans, e.g. named entities: a span is correct if its type and both of its boundaries are.
#
# Tags are read as strict IOB2: a span is a `B-` and the `I-` of its type that follow it; any other `I-` belongs to no
# span. seqeval 1.2 does the same with ``mode="strict", scheme=IOB2``. conlleval has the lenient
# reading.

OUTSIDE, BEGIN, INSIDE = range(3)
PREFIXES = {"B-": BEGIN, "I-": INSIDE}


class SpanScores(NamedTuple):
    """Values from 0 to 1; `macro_` is the mean over the types that have a span in gold or in the predictions."""

    precision: float
    recall: float
    f1: float
    macro_precision: float
    macro_recall: float
    macro_f1: float


def span_types(names: tuple[str, ...]) -> tuple[str, ...]:
    """The entity types of span tags, sorted; type ids index them."""
    return tuple(sorted({name[2:] for name in names if name[:2] in PREFIXES}))


def spans(tags: Ids, starts: Ids, names: tuple[str, ...], *, lenient: bool = False) -> Ids:
    """The spans of all sentences, in order.

    Args:
        tags: (words,) ids into `names`; -1 counts as `O`.
        starts: (sentences,) index of each sentence's first word, ascending.
        names: `O`, and `B-` and `I-` with a type.
        lenient: Whether an `I-` that continues no span begins one, as in conlleval.

    Returns:
        (spans, 3): id of the type in `span_types`, first word, one past the last word.
    """
    prefix_of, type_of = _parts(names)
    prefix, kind = prefix_of[tags], type_of[tags]
    continues = np.zeros(len(tags) + 1, dtype=bool)  # one more, where the last sentence ends
    continues[1:-1] = (prefix[1:] == INSIDE) & (prefix[:-1] != OUTSIDE) & (kind[1:] == kind[:-1])
    continues[starts] = False
    first = np.flatnonzero((prefix != OUTSIDE) & ~continues[:-1] if lenient else prefix == BEGIN)
    borders = np.flatnonzero(~continues)
    end = borders[np.searchsorted(borders, first, side="right")]
    return np.stack([kind[first], first, end], axis=1)


@lru_cache(maxsize=64)
def _parts(names: tuple[str, ...]) -> tuple[Ids, Ids]:
    """Prefix and type id of every name, (names + 1,) each; the last entry, which -1 indexes, is `O`."""
    types = {kind: i for i, kind in enumerate(span_types(names))}
    assert all(name == "O" or (name[:2] in PREFIXES and name[2:]) for name in names), names
    prefix = [PREFIXES.get(name[:2], OUTSIDE) for name in names]
    kind = [types.get(name[2:], -1) for name in names]
    return np.array([*prefix, OUTSIDE]), np.array([*kind, -1])


def count_spans(gold: Ids, predicted: Ids, starts: Ids, names: tuple[str, ...]) -> Counts:
    """The counts of every type in `span_types`; arguments as for `span_scores`."""
    n_types = len(span_types(names))
    each_kind = _gold_predicted_correct(gold, predicted, starts, names)
    return Counts(*(np.bincount(each[:, 0], minlength=n_types) for each in each_kind))


def _gold_predicted_correct(
    gold: Ids, predicted: Ids, starts: Ids, names: tuple[str, ...], *, lenient: bool = False
) -> tuple[Ids, Ids, Ids]:
    """The spans (spans, 3) of gold, of the predictions, and those that are both."""
    guessed, actual = (spans(tags, starts, names, lenient=lenient) for tags in (predicted, gold))
    at = np.full((len(gold), 2), -1, dtype=np.int64)  # type and end of the gold span that starts at a word
    at[actual[:, 1]] = actual[:, [0, 2]]
    return actual, guessed, guessed[(at[guessed[:, 1]] == guessed[:, [0, 2]]).all(axis=1)]


def span_scores(gold: Ids, predicted: Ids, starts: Ids, names: tuple[str, ...]) -> SpanScores:
    """Precision, recall and F1 over all spans, and their means over the types; 0 if a denominator is 0.

    Args:
        gold: (words,) ids into `names`.
        predicted: (words,) ids into `names`; -1 for no prediction, which counts as `O`.
        starts: (sentences,) index of each sentence's first word, ascending.
        names: `O`, and `B-` and `I-` with a type.
    """
    assert gold.shape == predicted.shape
    counts = count_spans(gold, predicted, starts, names)
    support, n_predicted, correct = (int(each.sum()) for each in counts)
    over_all = share([correct, correct, 2 * correct], [n_predicted, support, support + n_predicted])
    n_types = int(counts.occurs.sum())
    means = share([each.sum() for each in counts.shares()], [n_types] * 3)  # a type without spans has zeros
    return SpanScores(*over_all.tolist(), *means.tolist())


@lru_cache(maxsize=1)  # six metrics of one split
def _scores(split: PredictedSplit) -> SpanScores:
    return span_scores(split.gold, split.predicted, split.starts, split.names)


def span_counts(split: PredictedSplit, *, lenient: bool = False) -> Floats:
    """(sentences, 3, types) counts of gold, predicted and correct spans of each sentence; `lenient` as for `spans`."""
    n_types = len(span_types(split.names))
    counted_spans = _gold_predicted_correct(split.gold, split.predicted, split.starts, split.names, lenient=lenient)
    examples = [np.searchsorted(split.starts, each[:, 1], side="right") - 1 for each in counted_spans]
    return np.stack(
        [
            count_items(each[:, 0], example, len(split.starts), n_types)
            for each, example in zip(counted_spans, examples, strict=True)
        ],
        axis=1,
    )


def _register(score: str, about: str, of_sums: Score) -> None:
    label = f"span {score.replace('_', ' ').replace('f1', 'F1')}"
    register(
        TaskMetric(
            f"span_{score}",
            label,
            f"Of whole entities{about}",
            "span",
            frozenset({"spans"}),
            lambda split: getattr(_scores(split), score),
            contributions=lambda split: counted(span_counts(split), of_sums),
        )
    )


_register("precision", ", strict IOB2: precision.", partial(metric.micro_share, 1))
_register("recall", ": recall.", partial(metric.micro_share, 0))
_register("f1", ": F1.", metric.micro_f1)
_register("macro_precision", ": mean precision of the types.", partial(metric.macro_share, 1))
_register("macro_recall", ": mean recall of the types.", partial(metric.macro_share, 0))
_register("macro_f1", ": mean F1 of the types.", metric.macro_f1)


# Metrics over texts, each with one class or one number.


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
        contributions=lambda split: counted(counts_of(split), metric.matthews),
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
        contributions=lambda split: counted(counts_of(split, split.positive), metric.label_f1(split.positive)),
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
        contributions=lambda split: counted(metric.pearson_statistics(split.gold, split.predicted), metric.pearson),
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
        contributions=lambda split: metric.spearman_values(split.gold, split.predicted),
        lowest=-1.0,
    )
)


# F1 over entities as conlleval computes it, the script of the shared tasks from CoNLL-2000 on.
#
# It is more lenient than the strict reading: an `I-` begins a span where it continues none, i.e. at the start of a
# sentence, after `O` and after another type (E. Tjong Kim Sang and S. Buchholz, "Introduction to the CoNLL-2000 Shared
# Task: Chunking", 2000). Most published F1 of CoNLL-2003 is this one.

register(
    TaskMetric(
        "conlleval_f1",
        label="conlleval F1",
        about="Of whole entities as the script conlleval reads IOB tags, where an I- may begin an entity: F1.",
        group="span",
        outputs=frozenset({"spans"}),
        function=lambda split: float(metric.micro_f1(span_counts(split, lenient=True).sum(axis=0))),
        contributions=lambda split: metric.counted(span_counts(split, lenient=True), metric.micro_f1),
    )
)


# Precision, recall and F1 of each label.

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
