"""Scores over texts are scikit-learn's and SciPy's, and 0 where these are undefined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score, classification_report, f1_score, matthews_corrcoef

from trials.metrics.contributions import Floats, Ids
from trials.metrics.label_table import tag_table
from trials.metrics.metric import METRICS, NO_CLASS, PredictedSplit
from trials.metrics.task_metrics import accuracy, pearson, spearman

CLASSES = st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 3)), min_size=1, max_size=30)
# To one decimal, as people score: far from what only rounding tells apart.
NUMBERS = st.lists(st.tuples(*[st.integers(-50, 50).map(lambda n: n / 10)] * 2), min_size=2, max_size=30)


def ids(values: Sequence[int]) -> Ids:
    return np.array(values, dtype=np.int64)


def of_texts(name: str, gold: Ids, predicted: Ids, positive: int = NO_CLASS) -> float:
    """A metric of texts, or of words of which each is a sentence."""
    return METRICS[name].function(PredictedSplit(gold, predicted, np.arange(len(gold)), NAMES, positive))


def floats(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


@given(CLASSES)
@example([(0, 1), (1, 0), (1, -1)])
def test_matthews_is_sklearns_for_any_number_of_classes(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = map(ids, zip(*pairs, strict=True))
    assume(len({*gold.tolist(), *predicted.tolist()}) > 1)  # sklearn warns of a single class
    assert of_texts("matthews", gold, predicted) == pytest.approx(matthews_corrcoef(gold, predicted), abs=1e-9)


@given(CLASSES, st.integers(0, 3))
@example([(1, 1), (1, -1), (0, 0)], 1)
def test_binary_f1_is_sklearns(pairs: list[tuple[int, int]], positive: int) -> None:
    gold, predicted = map(ids, zip(*pairs, strict=True))
    expected = f1_score(gold == positive, predicted == positive, zero_division=0)
    assert of_texts("f1", gold, predicted, positive) == pytest.approx(expected, abs=1e-12)


def test_matthews_of_200_000_texts_does_not_overflow() -> None:
    gold = np.arange(200_000) % 2
    predicted = np.where(np.arange(200_000) < 180_000, gold, 1 - gold)
    assert of_texts("matthews", gold, predicted) == pytest.approx(0.8)


@given(NUMBERS)
def test_correlations_are_those_of_scipy(pairs: list[tuple[float, float]]) -> None:
    gold, predicted = (floats(*side) for side in zip(*pairs, strict=True))
    assume(len(set(gold)) > 1 and len(set(predicted)) > 1)
    assert pearson(gold, predicted) == pytest.approx(stats.pearsonr(gold, predicted).statistic, abs=1e-9)
    assert spearman(gold, predicted) == pytest.approx(stats.spearmanr(gold, predicted).statistic, abs=1e-9)


# --- Scores over words are scikit-learn's, and a word without a prediction is never right.


NAMES = ("ADJ", "NOUN", "PUNCT", "VERB", "X")
PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 4)), min_size=1, max_size=30)
Pairs = list[tuple[int, int]]


def arrays(pairs: Pairs) -> tuple[Ids, Ids]:
    gold, predicted = zip(*pairs, strict=True)
    return ids(gold), ids(predicted)


@given(PAIRS)
@example([(0, 0), (1, 1), (1, -1)])
def test_accuracy_is_sklearns(pairs: Pairs) -> None:
    gold, predicted = arrays(pairs)
    assert accuracy(gold, predicted) == pytest.approx(accuracy_score(gold, predicted), abs=1e-12)


@given(PAIRS)
@example([(0, 0), (1, 1), (1, -1)])
def test_macro_f1_is_sklearns_over_the_labels_that_occur(pairs: Pairs) -> None:
    gold, predicted = arrays(pairs)
    labels = sorted({*gold.tolist(), *predicted.tolist()} - {-1})
    expected = f1_score(gold, predicted, average="macro", labels=labels, zero_division=0)
    assert of_texts("macro_f1", gold, predicted) == pytest.approx(expected, abs=1e-12)


def test_of_no_words_nothing_is_right() -> None:
    assert (
        accuracy(ids([]), ids([]))
        == of_texts("macro_f1", ids([]), ids([]))
        == of_texts("macro_f1", ids([-1]), ids([-1]))
        == 0.0
    )


@given(PAIRS)
@example([(0, 0), (1, 1), (1, -1)])
def test_the_table_is_sklearns_report(pairs: Pairs) -> None:
    gold, predicted = arrays(pairs)
    rows = tag_table(gold, predicted, NAMES)
    labels = [NAMES.index(row.tag) for row in rows]
    assert labels == sorted({*gold.tolist(), *predicted.tolist()} - {-1})
    report = classification_report(gold, predicted, labels=labels, output_dict=True, zero_division=0)
    for label, row in zip(labels, rows, strict=True):
        expected = report[str(label)]
        found = (row.precision, row.recall, row.f1, row.support)
        assert found == pytest.approx(tuple(expected[key] for key in ("precision", "recall", "f1-score", "support")))
