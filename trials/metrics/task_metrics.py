"""The metrics of the built-in tasks, over words, spans, texts and numbers.

The order of their registration is that of the store's columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from trials.metrics import contributions
from trials.metrics.contributions import (
    Floats,
    Ids,
    Score,
    label_counts,
    macro_f1,
    micro_f1,
    pearson_statistics,
    pseudo_values_of,
    ranks,
)
from trials.metrics.metric import Group, Output, PredictedSplit, TaskMetric, register
from trials.metrics.spans import span_counts


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
            contributions=lambda split: pseudo_values_of(counts(split), score(split)),
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


@lru_cache(maxsize=1)  # six metrics of one split
def _strict(split: PredictedSplit) -> Floats:
    return span_counts(split)


def _lenient(split: PredictedSplit) -> Floats:
    return span_counts(split, lenient=True)


_SPAN_SCORES: dict[str, tuple[str, Score]] = {
    "precision": (", strict IOB2: precision.", partial(contributions.micro_share, 1)),
    "recall": (": recall.", partial(contributions.micro_share, 0)),
    "f1": (": F1.", micro_f1),
    "macro_precision": (": mean precision of the types.", partial(contributions.macro_share, 1)),
    "macro_recall": (": mean recall of the types.", partial(contributions.macro_share, 0)),
    "macro_f1": (": mean F1 of the types.", macro_f1),
}
for _name, (_about, _score) in _SPAN_SCORES.items():
    _label = f"span {_name.replace('_', ' ').replace('f1', 'F1')}"
    _of_sums = partial(lambda score, split: score, _score)
    _register(f"span_{_name}", _label, f"Of whole entities{_about}", "span", {"spans"}, _strict, _of_sums)


def pearson(gold: Floats, predicted: Floats) -> float:
    """Pearson correlation of finite numbers (texts,), -1 to 1; 0 if one side is constant."""
    assert gold.shape == predicted.shape
    a, b = _centre(gold), _centre(predicted)
    spread = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.clip(np.dot(a, b) / spread, -1, 1)) if spread else 0.0


def spearman(gold: Floats, predicted: Floats) -> float:
    """Spearman rank correlation of numbers (items,); equal ones share their mean rank, and 0 as for `pearson`."""
    return pearson(ranks(gold), ranks(predicted))


def _centre(values: Floats) -> Floats:
    """(values,) differences from the mean, scaled to at most 1 so that their squares neither overflow nor vanish."""
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
    lambda split: contributions.matthews, lowest=-1.0,
)  # fmt: skip
_register(
    "f1", "F1", "F1 of the positive class.", "label", {"binary"}, lambda split: counts_of(split, split.positive),
    lambda split: contributions.label_f1(split.positive),
)  # fmt: skip
register(
    TaskMetric(
        "pearson", "Pearson correlation", "Pearson's correlation.", "correlation", frozenset({"numbers"}),
        lambda split: pearson(split.gold, split.predicted), lowest=-1.0,
        contributions=lambda split: pseudo_values_of(
            pearson_statistics(split.gold, split.predicted), contributions.pearson
        ),
    )
)  # fmt: skip
register(
    TaskMetric(
        "spearman", "Spearman correlation", "Spearman's rank correlation.", "correlation", frozenset({"numbers"}),
        lambda split: spearman(split.gold, split.predicted), lowest=-1.0,
        contributions=lambda split: contributions.spearman_values(split.gold, split.predicted),
    )
)  # fmt: skip


# Most published F1 of CoNLL-2003 is this one.
_register(
    "conlleval_f1", "conlleval F1", "Of whole entities as the script conlleval reads IOB tags, where an I- may begin "
    "an entity: F1.", "span", {"spans"}, _lenient, lambda split: micro_f1,
)  # fmt: skip
