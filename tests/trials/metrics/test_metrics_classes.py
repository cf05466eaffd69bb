"""Scores over texts are scikit-learn's and SciPy's, and 0 where these are undefined."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import f1_score, matthews_corrcoef

from tests.examples import each
from trials.metrics.classes import binary_f1, matthews, pearson, spearman
from trials.metrics.counts import Floats, Ids

Correlation = Callable[[Floats, Floats], float]
CLASSES = st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 3)), min_size=1, max_size=30)
# To one decimal, as people score: far from what only rounding tells apart.
NUMBERS = st.lists(st.tuples(*[st.integers(-50, 50).map(lambda n: n / 10)] * 2), min_size=2, max_size=30)


def ids(values: Sequence[int]) -> Ids:
    return np.array(values, dtype=np.int64)


def floats(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


@given(CLASSES)
def test_matthews_is_sklearns_for_any_number_of_classes(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = map(ids, zip(*pairs, strict=True))
    assume(len({*gold.tolist(), *predicted.tolist()}) > 1)  # sklearn warns of a single class
    assert matthews(gold, predicted) == pytest.approx(matthews_corrcoef(gold, predicted), abs=1e-9)


@given(CLASSES, st.integers(0, 3))
def test_binary_f1_is_sklearns(pairs: list[tuple[int, int]], positive: int) -> None:
    gold, predicted = map(ids, zip(*pairs, strict=True))
    expected = f1_score(gold == positive, predicted == positive, zero_division=0)
    assert binary_f1(gold, predicted, positive) == pytest.approx(expected, abs=1e-12)


@each("gold, predicted", [([], []), ([1, 1], [1, 1]), ([0, 1], [1, 1]), ([1, 1], [0, 1])])
def test_matthews_is_0_where_one_side_has_one_class(gold: list[int], predicted: list[int]) -> None:
    assert matthews(ids(gold), ids(predicted)) == 0.0


def test_matthews_of_a_perfect_and_of_an_inverted_prediction() -> None:
    gold = ids([0, 1, 1, 0])
    assert (matthews(gold, gold), matthews(gold, 1 - gold)) == (1.0, -1.0)


def test_matthews_of_a_million_texts_does_not_overflow() -> None:
    gold = np.arange(1_000_000) % 2
    predicted = np.where(np.arange(1_000_000) < 900_000, gold, 1 - gold)
    assert matthews(gold, predicted) == pytest.approx(0.8)


def test_a_text_without_prediction_is_never_right() -> None:
    assert matthews(ids([-1, 0]), ids([-1, 0])) < 1
    assert binary_f1(ids([1, 1]), ids([1, -1]), positive=1) == pytest.approx(2 / 3)


def test_binary_f1_is_0_where_the_class_does_not_occur() -> None:
    assert binary_f1(ids([0, 0]), ids([0, 0]), positive=1) == binary_f1(ids([]), ids([]), positive=1) == 0.0


@given(NUMBERS)
def test_correlations_are_those_of_scipy(pairs: list[tuple[float, float]]) -> None:
    gold, predicted = (floats(*side) for side in zip(*pairs, strict=True))
    assume(len(set(gold)) > 1 and len(set(predicted)) > 1)
    assert pearson(gold, predicted) == pytest.approx(stats.pearsonr(gold, predicted).statistic, abs=1e-9)
    assert spearman(gold, predicted) == pytest.approx(stats.spearmanr(gold, predicted).statistic, abs=1e-9)


@each("correlation", [pearson, spearman])
@each("constant", [0.0, 0.1, 1e300, -1e-310])
def test_a_constant_correlates_with_nothing(correlation: Correlation, constant: float) -> None:
    numbers, same = floats(1, 2, 3.5), floats(*[constant] * 3)  # 0.1 + 0.1 + 0.1 is not 3 * 0.1
    assert correlation(numbers, same) == correlation(same, numbers) == correlation(same, same) == 0.0


@each("correlation", [pearson, spearman])
@each("numbers", [(), (1.0,)])
def test_fewer_than_two_numbers_correlate_with_nothing(correlation: Correlation, numbers: tuple[float, ...]) -> None:
    assert correlation(floats(*numbers), floats(*numbers)) == 0.0


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_a_correlation_does_not_depend_on_the_scale(scale: float) -> None:
    assert pearson(floats(1, 2, 4), scale * floats(1, 2, 4)) == pytest.approx(1)
    assert pearson(floats(1, 2, 4), -scale * floats(1, 2, 4)) == pytest.approx(-1)


def test_spearman_sees_the_order_only() -> None:
    assert spearman(floats(1, 2, 3, 4), floats(1, 10, 100, 1000)) == pytest.approx(1)
    assert pearson(floats(1, 2, 3, 4), floats(1, 10, 100, 1000)) < 0.9


@pytest.mark.parametrize("correlation", [pearson, spearman])
def test_sides_of_unlike_length_are_our_mistake(correlation: Correlation) -> None:
    with pytest.raises(AssertionError):
        correlation(floats(1, 2), floats(1))
