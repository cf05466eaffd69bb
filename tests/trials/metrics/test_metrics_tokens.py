"""Scores over words are scikit-learn's, and a word without a prediction is never right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, classification_report, f1_score

from trials.metrics.metric import Ids
from trials.metrics.task_metrics import TagScore, accuracy, macro_f1, tag_table

NAMES = ("ADJ", "NOUN", "PUNCT", "VERB", "X")
PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 4)), min_size=1, max_size=30)
Pairs = list[tuple[int, int]]


def ids(values: Sequence[int]) -> Ids:
    return np.array(values, dtype=np.int64)


def arrays(pairs: Pairs) -> tuple[Ids, Ids]:
    gold, predicted = zip(*pairs, strict=True)
    return ids(gold), ids(predicted)


@given(PAIRS)
def test_accuracy_is_sklearns(pairs: Pairs) -> None:
    gold, predicted = arrays(pairs)
    assert accuracy(gold, predicted) == pytest.approx(accuracy_score(gold, predicted), abs=1e-12)


@given(PAIRS)
def test_macro_f1_is_sklearns_over_the_labels_that_occur(pairs: Pairs) -> None:
    gold, predicted = arrays(pairs)
    labels = sorted({*gold.tolist(), *predicted.tolist()} - {-1})
    expected = f1_score(gold, predicted, average="macro", labels=labels, zero_division=0)
    assert macro_f1(gold, predicted) == pytest.approx(expected, abs=1e-12)


def test_macro_f1_weighs_a_rare_label_like_a_frequent_one() -> None:
    assert macro_f1(ids([0, 0, 0, 1]), ids([0, 0, 0, 0])) == pytest.approx((6 / 7 + 0) / 2)


def test_a_word_without_a_prediction_is_an_error_and_no_label_of_its_own() -> None:
    gold, predicted = ids([0, 1, 1]), ids([0, 1, -1])
    assert accuracy(gold, predicted) == 2 / 3
    assert macro_f1(gold, predicted) == pytest.approx((1 + 2 / 3) / 2)
    assert [score.tag for score in tag_table(gold, predicted, NAMES)] == ["ADJ", "NOUN"]


def test_a_label_that_has_no_name_is_never_predicted() -> None:
    assert accuracy(ids([-1, 0]), ids([-1, 0])) == 0.5


def test_of_no_words_nothing_is_right() -> None:
    assert accuracy(ids([]), ids([])) == macro_f1(ids([]), ids([])) == macro_f1(ids([-1]), ids([-1])) == 0.0


@pytest.mark.parametrize("score", [accuracy, macro_f1])
def test_predictions_of_another_length_are_our_mistake(score: object) -> None:
    assert callable(score)
    with pytest.raises(AssertionError):
        score(ids([0, 1]), ids([0]))


@given(PAIRS)
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


def test_a_row_counts_what_is_there_what_is_said_and_what_is_right() -> None:
    row = TagScore("NOUN", "token", support=2, predicted=3, correct=1, precision=1 / 3, recall=1 / 2, f1=2 / 5)
    table = tag_table(ids([1, 1, 0, 3]), ids([1, 0, 1, 1]), NAMES)
    assert table[1] == row
    assert tag_table(ids([1, 1, 0, 3]), ids([1, 0, 1, 1]), NAMES, level="class")[1] == replace(row, level="class")
