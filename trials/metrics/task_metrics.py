"""The metrics of the built-in tasks, over words, spans, texts and numbers, and the table of precision and recall.

The order of their registration is that of the store's columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

import numpy as np

from trials.metrics import metric
from trials.metrics.metric import (
    Floats,
    Group,
    Ids,
    Output,
    PredictedSplit,
    Score,
    TaskMetric,
    count_items,
    counted,
    label_counts,
    macro_f1,
    micro_f1,
    ranks,
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


def _register(
    name: str, label: str, about: str, group: Group, outputs: set[Output],
    counts: Callable[[PredictedSplit], Floats], score: Callable[[PredictedSplit], Score], *, lowest: float = 0.0,
) -> None:  # fmt: skip
    """Register a metric that is a score of summed counts (`trials.metrics.metric`)."""
    register(
        TaskMetric(
            name,
            label,
            about,
            group,
            frozenset(outputs),
            lambda split: float(score(split)(counts(split).sum(axis=0))),
            lowest=lowest,
            contributions=lambda split: counted(counts(split), score(split)),
        )
    )


register(
    TaskMetric(
        "accuracy", "accuracy", "Share of correct labels.", "label", frozenset({"tags", "classes", "binary"}),
        lambda split: accuracy(split.gold, split.predicted), contributions=correct_words, per_word=True,
    )
)  # fmt: skip
# Every tag counts as a label of its own: `B-LOC`, `I-LOC` and `O`.
_register(
    "macro_f1", "macro F1", "Mean F1 of all labels.", "label", {"tags", "classes"}, counts_of, lambda split: macro_f1
)


# Metrics over spans, e.g. named entities: a span is correct if its type and both of its boundaries are.
#
# Tags are read as strict IOB2: a span is a `B-` and the `I-` of its type that follow it; any other `I-` belongs to no
# span. seqeval 1.2 does the same with ``mode="strict", scheme=IOB2``. conlleval has the lenient
# reading.

OUTSIDE, BEGIN, INSIDE = range(3)
PREFIXES = {"B-": BEGIN, "I-": INSIDE}


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


def _gold_predicted_correct(
    gold: Ids, predicted: Ids, starts: Ids, names: tuple[str, ...], *, lenient: bool = False
) -> tuple[Ids, Ids, Ids]:
    """The spans (spans, 3) of gold, of the predictions, and those that are both."""
    guessed, actual = (spans(tags, starts, names, lenient=lenient) for tags in (predicted, gold))
    at = np.full((len(gold), 2), -1, dtype=np.int64)  # type and end of the gold span that starts at a word
    at[actual[:, 1]] = actual[:, [0, 2]]
    return actual, guessed, guessed[(at[guessed[:, 1]] == guessed[:, [0, 2]]).all(axis=1)]


def span_counts(split: PredictedSplit, *, lenient: bool = False) -> Floats:
    """(sentences, 3, types) counts of gold, predicted and correct spans of each sentence; `lenient` as for `spans`."""
    n_types = len(span_types(split.names))
    counted_spans = _gold_predicted_correct(split.gold, split.predicted, split.starts, split.names, lenient=lenient)
    examples = [np.searchsorted(split.starts, span_rows[:, 1], side="right") - 1 for span_rows in counted_spans]
    return np.stack(
        [
            count_items(span_rows[:, 0], example, len(split.starts), n_types)
            for span_rows, example in zip(counted_spans, examples, strict=True)
        ],
        axis=1,
    )


@lru_cache(maxsize=1)  # six metrics of one split
def _strict(split: PredictedSplit) -> Floats:
    return span_counts(split)


def _lenient(split: PredictedSplit) -> Floats:
    return span_counts(split, lenient=True)


_SPAN_SCORES: dict[str, tuple[str, Score]] = {
    "precision": (", strict IOB2: precision.", partial(metric.micro_share, 1)),
    "recall": (": recall.", partial(metric.micro_share, 0)),
    "f1": (": F1.", micro_f1),
    "macro_precision": (": mean precision of the types.", partial(metric.macro_share, 1)),
    "macro_recall": (": mean recall of the types.", partial(metric.macro_share, 0)),
    "macro_f1": (": mean F1 of the types.", macro_f1),
}
for _name, (_about, _score) in _SPAN_SCORES.items():
    _label = f"span {_name.replace('_', ' ').replace('f1', 'F1')}"
    _of_sums = partial(lambda score, split: score, _score)
    _register(f"span_{_name}", _label, f"Of whole entities{_about}", "span", {"spans"}, _strict, _of_sums)


# Metrics over texts, each with one class or one number.


def pearson(gold: Floats, predicted: Floats) -> float:
    """Pearson correlation of finite numbers (texts,), -1 to 1; 0 if one side is constant."""
    assert gold.shape == predicted.shape
    a, b = _centred(gold), _centred(predicted)
    spread = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.clip(np.dot(a, b) / spread, -1, 1)) if spread else 0.0


def spearman(gold: Floats, predicted: Floats) -> float:
    """Spearman rank correlation, equal numbers sharing their mean rank; arguments as for `pearson`."""
    return pearson(ranks(gold), ranks(predicted))


def _centred(values: Floats) -> Floats:
    """(values,) differences from the mean, scaled to at most 1 so that no square of one overflows or vanishes."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) == 0 or (values == values[0]).all():  # a rounded mean would leave the constant a spread
        return np.zeros_like(values)
    scaled = values / np.abs(values).max()
    centred: Floats = scaled - scaled.mean()
    centred /= np.abs(centred).max()
    return centred


# Matthews' correlation is only of tasks that select by it.
_register(
    "matthews", "Matthews correlation", "Matthews' correlation.", "correlation", set(), counts_of,
    lambda split: metric.matthews, lowest=-1.0,
)  # fmt: skip
_register(
    "f1", "F1", "F1 of the positive class.", "label", {"binary"}, lambda split: counts_of(split, split.positive),
    lambda split: metric.label_f1(split.positive),
)  # fmt: skip
register(
    TaskMetric(
        "pearson", "Pearson correlation", "Pearson's correlation.", "correlation", frozenset({"numbers"}),
        lambda split: pearson(split.gold, split.predicted), lowest=-1.0,
        contributions=lambda split: counted(metric.pearson_statistics(split.gold, split.predicted), metric.pearson),
    )
)  # fmt: skip
register(
    TaskMetric(
        "spearman", "Spearman correlation", "Spearman's rank correlation.", "correlation", frozenset({"numbers"}),
        lambda split: spearman(split.gold, split.predicted), lowest=-1.0,
        contributions=lambda split: metric.spearman_values(split.gold, split.predicted),
    )
)  # fmt: skip


# F1 over entities as conlleval computes it, the script of the shared tasks from CoNLL-2000 on.
#
# It is more lenient than the strict reading: an `I-` begins a span where it continues none, i.e. at the start of a
# sentence, after `O` and after another type (E. Tjong Kim Sang and S. Buchholz, "Introduction to the CoNLL-2000 Shared
# Task: Chunking", 2000). Most published F1 of CoNLL-2003 is this one.

_register(
    "conlleval_f1", "conlleval F1", "Of whole entities as the script conlleval reads IOB tags, where an I- may begin "
    "an entity: F1.", "span", {"spans"}, _lenient, lambda split: micro_f1,
)  # fmt: skip


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
