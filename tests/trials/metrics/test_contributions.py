"""What each example contributes to a metric: the mean is the metric, and leaving one out says what it is worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from trials.metrics import contributions as module
from trials.metrics.contributions import (
    pseudo_values,
)
from trials.metrics.metric import METRICS, PredictedSplit, TaskMetric

TAGS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
LENGTHS = st.lists(st.integers(1, 5), min_size=3, max_size=8)


def split_of(name: str, lengths: list[int], seed: int) -> PredictedSplit:
    """Random labels, two thirds of them right; for the metrics over numbers, numbers."""
    rng, n = np.random.default_rng(seed), sum(lengths)
    if METRICS[name].group == "correlation" and name != "matthews":
        numbers = rng.normal(size=len(lengths))
        return PredictedSplit(numbers, numbers + rng.normal(size=len(lengths)), np.arange(len(lengths)), ())
    gold = rng.integers(0, len(TAGS), n)
    predicted = np.where(rng.random(n) < 2 / 3, gold, rng.integers(-1, len(TAGS), n))
    return PredictedSplit(gold, predicted, np.cumsum([0, *lengths[:-1]]), TAGS, positive=1)


@each("name", list(METRICS))
@given(lengths=LENGTHS, seed=st.integers(0, 99))
def test_their_mean_is_the_metric(name: str, lengths: list[int], seed: int) -> None:
    metric, split = METRICS[name], split_of(name, lengths, seed)
    values = metric.score_contributions(split)
    assert len(values) == len(split.starts)
    assert values.mean() == pytest.approx(metric.as_score(metric.function(split)), abs=1e-9)


@each("name", [name for name in METRICS if name != "accuracy"])
@given(lengths=LENGTHS, seed=st.integers(0, 99))
def test_the_fast_ones_are_what_leaving_one_out_gives(name: str, lengths: list[int], seed: int) -> None:
    metric, split = METRICS[name], split_of(name, lengths, seed)
    assert metric.score_contributions(split) == pytest.approx(_slow(metric).score_contributions(split), abs=1e-9)


def _slow(metric: TaskMetric) -> TaskMetric:
    return replace(metric, contributions=None)


def test_one_example_or_too_many_for_a_slow_metric_have_none() -> None:
    assert not len(METRICS["accuracy"].score_contributions(split_of("accuracy", [3], 0)))
    assert not len(_slow(METRICS["accuracy"]).score_contributions(split_of("accuracy", [1] * 2001, 0)))


def test_a_constant_prediction_scores_what_its_metric_gives_it() -> None:
    gold = np.array([0] * 6 + [1] * 4)
    split = PredictedSplit(gold, gold, np.arange(10), ("a", "b"), positive=1)
    of = {name: METRICS[name].constant_score(split) for name in ("accuracy", "matthews", "f1", "macro_f1")}
    assert of == pytest.approx({"accuracy": 0.6, "matthews": 0.0, "f1": 0.8 / 1.4, "macro_f1": 0.6 / 1.6})


# --- Each sentence's contribution to a loss: leave-one-out by hand, the scores of `trials.metrics`, coverage of F1.


def test_pseudo_values_of_f1_vary_as_f1_does_over_samples_of_sentences() -> None:
    """What the interval rests on: the variance of pseudo-values by n is that of the score."""
    rng = np.random.default_rng(3)
    gold = rng.random((2000, 300)) < 0.3
    predicted = gold ^ (rng.random(gold.shape) < 0.15)
    counts = np.stack([gold, predicted, gold & predicted], axis=-1).astype(np.float64)[..., None]
    claimed = pseudo_values(counts, module.micro_f1).var(axis=1, ddof=1).mean() / 300
    assert claimed == pytest.approx(module.micro_f1(counts.sum(axis=1)).var(), rel=0.1)  # standard error 3 %


def test_one_sentence_has_no_pseudo_values() -> None:
    with pytest.raises(ValueError, match="pseudo-values need two sentences"):
        pseudo_values(np.ones((3, 1, 3, 2)), module.macro_f1)


def test_an_undefined_score_is_refused() -> None:
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="not finite"):
        pseudo_values(np.zeros((1, 3, 2)), lambda sums: sums[..., 0] / sums[..., 1])
