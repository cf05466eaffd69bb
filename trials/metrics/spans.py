"""Metrics over spans, e.g. named entities: a span is correct if its type and both of its boundaries are.

Tags are read as strict IOB2: a span is a `B-` and the `I-` of its type that follow it; any other `I-` belongs to no
span. seqeval 1.2 does the same with ``mode="strict", scheme=IOB2``. `trials.metrics.conlleval` has the lenient reading.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from trials.metrics import pseudo_values
from trials.metrics.counts import Counts, Floats, Ids, share
from trials.metrics.metric import PredictedSplit, TaskMetric, register
from trials.metrics.pseudo_values import Score, count_items, counted

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


_register("precision", ", strict IOB2: precision.", partial(pseudo_values.micro_share, 1))
_register("recall", ": recall.", partial(pseudo_values.micro_share, 0))
_register("f1", ": F1.", pseudo_values.micro_f1)
_register("macro_precision", ": mean precision of the types.", partial(pseudo_values.macro_share, 1))
_register("macro_recall", ": mean recall of the types.", partial(pseudo_values.macro_share, 0))
_register("macro_f1", ": mean F1 of the types.", pseudo_values.macro_f1)
