"""What each sentence contributes to the loss of a freeze: the values x[s, i] that `two_way` takes.

For accuracy, a mean over words, it is the difference in correct words over the mean words a sentence. F1, Matthews'
correlation, Pearson's and Spearman's are no means over sentences; there it is the difference of the jackknife's
pseudo-values n T - (n - 1) T(without i), which behave like the values of a mean (J. Tukey 1958; B. Efron and C.
Stein, "The Jackknife Estimate of Variance", Annals of Statistics 9 (1981), 586-596). They are shifted so that their
mean is the score itself and not the jackknife's correction of it, so that an interval stands around the difference
that tables show.

Scores that are functions of counts take O(sentences): the sums without a sentence are the sums less the sentence. The
counts are additive over sentences, and one layout serves all scores:

    counts[..., 0, label]  items that are the label
    counts[..., 1, label]  items that were taken for it
    counts[..., 2, label]  items that are both

where an item is a word, a text or a span. An item without a prediction is counted in the first row alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]


def share(part: npt.ArrayLike, whole: npt.ArrayLike) -> Floats:
    """(...) parts divided by wholes (...); 0 where the whole is 0."""
    above, below = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


Score = Callable[[Floats], Floats]  # sums (..., *statistics) to scores (...)
_CONSTANT = 1e-12  # a variance below this share of the mean square is the rounding of a constant
_BLOCK = 2_000_000  # comparisons of pairs of sentences at a time


def pseudo_values(statistics: Floats, score: Score) -> Floats:
    """Pseudo-values (seeds, sentences) whose mean over a seed's sentences is its score.

    Args:
        statistics: (seeds, sentences, *statistics), each sentence's.
        score: Takes sums (..., *statistics) to scores (...).

    Raises:
        ValueError: There is one sentence only, or a score is not finite.
    """
    values = np.asarray(statistics, dtype=np.float64)
    total = values.sum(axis=1, keepdims=True)  # (seeds, 1, *statistics)
    return jackknife(score(total), score(total - values))


def jackknife(whole: Floats, left_out: Floats) -> Floats:
    """Pseudo-values from the score `whole` (..., 1) and the scores without each sentence (..., sentences).

    Raises:
        ValueError: There is one sentence only, or a score is not finite.
    """
    n = left_out.shape[-1]
    if n < 2:
        raise ValueError("pseudo-values need two sentences")
    if not (np.isfinite(whole).all() and np.isfinite(left_out).all()):
        raise ValueError("a score of summed statistics is not finite")
    values: Floats = whole + (n - 1) * (left_out.mean(axis=-1, keepdims=True) - left_out)
    return values


def label_counts(gold: Ids, predicted: Ids, starts: Ids, n_labels: int) -> Floats:
    """Counts (examples, 3, labels) of the places of each example, for the scores below.

    Args:
        gold: (places,) ids of the labels; an id below 0 is none of them and is not counted.
        predicted: (places,) ids of the predictions, likewise.
        starts: (examples,) index of each example's first place, ascending.
    """
    correct = np.where(gold == predicted, gold, -1)
    example = np.searchsorted(starts, np.arange(len(gold)), side="right") - 1
    return np.stack([count_items(ids, example, len(starts), n_labels) for ids in (gold, predicted, correct)], axis=1)


def count_items(labels: Ids, example: Ids, n_examples: int, n_labels: int) -> Floats:
    """Counts (examples, labels) of items (items,) by the example (items,) that each belongs to."""
    labelled = labels >= 0
    flat = np.bincount(example[labelled] * n_labels + labels[labelled], minlength=n_examples * n_labels)
    counts: Floats = flat.reshape(n_examples, n_labels).astype(np.float64)
    return counts


def pseudo_values_of(counts: Floats, score: Score) -> Floats:
    """Pseudo-values (examples,) of one trial's counts (examples, 3, labels)."""
    values: Floats = pseudo_values(counts[None], score)[0]
    return values


def micro_f1(sums: Floats) -> Floats:
    """F1 over all items of counts (..., 3, labels), as spans' F1 is; 0 where there is no item."""
    support, predicted, correct = _rows(sums.sum(axis=-1, keepdims=True))
    return share(2 * correct, support + predicted)[..., 0]


def micro_share(row: int, sums: Floats) -> Floats:
    """Correct items over all items of one row of counts (..., 3, labels): recall for row 0, precision for row 1."""
    return share(sums[..., 2, :].sum(axis=-1), sums[..., row, :].sum(axis=-1))


def macro_share(row: int, sums: Floats) -> Floats:
    """Mean of `micro_share` over the labels of counts (..., 3, labels) that occur; 0 where none does."""
    support, predicted, correct = _rows(sums)
    return share(share(correct, sums[..., row, :]).sum(axis=-1), (support + predicted > 0).sum(axis=-1))


def macro_f1(sums: Floats) -> Floats:
    """Mean F1 of the labels that occur in counts (..., 3, labels), in gold or predicted; 0 where none does."""
    support, predicted, correct = _rows(sums)
    f1, occurs = share(2 * correct, support + predicted), support + predicted > 0
    if f1.ndim == 1:  # of one trial, as its row has it: numpy adds in pairs, so absent labels could change the last bit
        return np.asarray(f1[occurs].mean() if occurs.any() else 0.0)
    return share(f1.sum(axis=-1), occurs.sum(axis=-1))


def label_f1(label: int) -> Score:
    """F1 of one label from counts (..., 3, labels), defined as in GLUE; 0 where the label does not occur."""
    return lambda sums: micro_f1(sums[..., label : label + 1])


def accuracy(sums: Floats) -> Floats:
    """Share of correct items of counts (..., 3, labels); a mean over words has the same values without them."""
    support, _, correct = _rows(sums)
    return share(correct.sum(axis=-1), support.sum(axis=-1))


def matthews(sums: Floats) -> Floats:
    """Matthews' correlation of counts (..., 3, labels) of any number of labels (Gorodkin 2004).

    0 where gold or predictions have one class only; no prediction counts as a class of its own.
    """
    support, predicted, correct = _rows(sums)
    n = support.sum(axis=-1)
    none = n - predicted.sum(axis=-1)
    covariance = correct.sum(axis=-1) * n - (support * predicted).sum(axis=-1)
    spread = (n**2 - (support**2).sum(axis=-1)) * (n**2 - (predicted**2).sum(axis=-1) - none**2)
    return share(covariance, np.sqrt(spread))


def pearson_statistics(gold: Floats, predicted: Floats) -> Floats:
    """Additive statistics (..., texts, 6) of numbers (texts,) and predictions (..., texts), for `pearson`.

    Both are centred first, which changes no correlation and keeps the sums accurate.
    """
    a, b = np.broadcast_arrays(gold - gold.mean(), predicted - predicted.mean(axis=-1, keepdims=True))
    return np.stack([np.ones_like(a), a, b, a * a, b * b, a * b], axis=-1)


def pearson(sums: Floats) -> Floats:
    """Pearson's correlation from the sums (..., 6) of `pearson_statistics`; 0 where one side is constant."""
    n, a, b, aa, bb, ab = np.moveaxis(sums, -1, 0)
    return _correlation(n, a, b, aa, bb, ab)


def _correlation(n: Floats, a: Floats, b: Floats, aa: Floats, bb: Floats, ab: Floats) -> Floats:
    spread_a, spread_b = (np.where(x * n > y * y + _CONSTANT * x * n, x * n - y * y, 0) for x, y in ((aa, a), (bb, b)))
    return np.clip(share(ab * n - a * b, np.sqrt(spread_a * spread_b)), -1, 1)


def _rows(counts: Floats) -> tuple[Floats, Floats, Floats]:
    return counts[..., 0, :], counts[..., 1, :], counts[..., 2, :]


def spearman_values(gold: Floats, predicted: Floats) -> Floats:
    """Pseudo-values (texts,), exact: without a text, the ranks of all above it fall by 1 and those equal to it by 1/2.

    Takes O(texts^2) comparisons, half a second for 10,000 texts.
    """
    n = len(gold)
    left_out = np.empty(n)
    of_both = ranks(gold), ranks(predicted)
    step = max(1, _BLOCK // max(n, 1))
    for start in range(0, n, step):
        which = np.arange(start, min(start + step, n))
        kept = np.arange(n)[None, :] != which[:, None]  # (block, texts)
        a, b = ((r - (r > r[which, None]) - 0.5 * (r == r[which, None])) * kept for r in of_both)
        left_out[which] = _correlation(np.full(len(which), n - 1.0), *_sums(a, b))
    whole = _correlation(np.array([float(n)]), *_sums(*(r[None, :] for r in of_both)))
    return jackknife(whole, left_out)


def _sums(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    return a.sum(axis=1), b.sum(axis=1), (a * a).sum(axis=1), (b * b).sum(axis=1), (a * b).sum(axis=1)


def ranks(values: Floats) -> Floats:
    """Ranks (texts,) from 1, equal values sharing their mean rank."""
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    mean_ranks: Floats = (np.cumsum(times) - (times - 1) / 2)[place]
    return mean_ranks
