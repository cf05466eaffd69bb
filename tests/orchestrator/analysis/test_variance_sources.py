"""Variance by source: balanced and simulated crossed designs, and sources that cannot be separated."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from orchestrator.analysis.variance_sources import VarianceSource, variance_sources
from trials.settings import Seeds

CROSSED = [Seeds(*levels) for levels in itertools.product(range(6), repeat=3)]


def simulated(rng: np.random.Generator, seeds: list[Seeds], sd: tuple[float, float, float], rest: float) -> np.ndarray:
    effects = [rng.normal(0, each, 6) for each in sd]
    return np.array([sum(e[level] for e, level in zip(effects, each, strict=True)) for each in seeds]) + rng.normal(
        0, rest, len(seeds)
    )


def by_name(found: tuple[VarianceSource, ...]) -> dict[str, float]:
    return {" and ".join(each.names): each.variance for each in found}


def test_a_balanced_design_gives_the_mean_squares_of_the_analysis_of_variance() -> None:
    y = np.random.default_rng(0).normal(size=(2, 3, 4))
    seeds = [Seeds(*levels) for levels in itertools.product(range(2), range(3), range(4))]
    found = variance_sources(seeds, y.ravel())
    squares = [
        y.size / n * ((y.mean(axis=tuple({0, 1, 2} - {k})) - y.mean()) ** 2).sum() for k, n in enumerate(y.shape)
    ]
    rest = (((y - y.mean()) ** 2).sum() - sum(squares)) / (24 - 2 - 3 - 4 + 2)
    expected = [(square / (n - 1) - rest) / (24 / n) for square, n in zip(squares, y.shape, strict=True)]
    assert [each.variance for each in found] == pytest.approx([*expected, rest])
    assert [each.df for each in found] == [1, 2, 3, 17]


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_crossed_seeds_give_the_variance_of_each_source_on_average(gaps: float) -> None:
    rng, sd, rest = np.random.default_rng(1), (1.0, 2.0, 0.5), 1.5
    seeds = [each for each in CROSSED if rng.random() >= gaps]
    found = [by_name(variance_sources(seeds, simulated(rng, seeds, sd, rest))) for _ in range(300)]
    means = {name: np.mean([each[name] for each in found]) for name in found[0]}
    errors = {name: np.std([each[name] for each in found]) / 300**0.5 for name in means}
    expected = {"subset": 1.0, "initialisation": 4.0, "order": 0.25, "interactions": 2.25}
    assert all(abs(means[name] - value) < 3.5 * errors[name] for name, value in expected.items())


def test_seeds_that_go_together_are_one_source() -> None:
    (only,) = variance_sources([Seeds.of(seed) for seed in range(3)], np.array([1.0, 2.0, 3.0]))
    assert only.names == ("subset", "initialisation", "order")
    assert (only.variance, only.levels, only.df) == (1.0, 3, 2)
    assert (only.low, only.high) == pytest.approx((0.2711, 39.50), rel=1e-3)  # 2 / chi squared of 2 degrees of freedom


@pytest.mark.parametrize("variance", [0.0, 0.5, 9.0])
def test_intervals_hold_the_variance_of_a_source_in_95_percent_of_sweeps(variance: float) -> None:
    rng, n = np.random.default_rng(3), 1000
    seeds = [each for each in CROSSED if max(each) < 3]
    found = [variance_sources(seeds, simulated(rng, seeds, (1.0, variance**0.5, 0.0), 1.0)) for _ in range(n)]
    for source, true in zip(range(4), (1.0, variance, 0.0, 1.0), strict=True):
        held = np.mean([each[source].low <= true <= each[source].high for each in found])
        assert 0.935 <= held <= 0.995


def test_an_order_that_follows_the_seed_is_not_separated_from_the_subset() -> None:
    seeds = [Seeds.of(seed, init) for seed in range(3) for init in range(3)]
    rng = np.random.default_rng(0)
    assert list(by_name(variance_sources(seeds, rng.normal(size=9)))) == [
        "subset and order", "initialisation", "interactions",
    ]  # fmt: skip


def test_a_subset_that_never_changes_is_no_source() -> None:
    seeds = [Seeds.of(seed, init) for seed in range(2) for init in range(2)]
    found = variance_sources(seeds, np.arange(4.0), same_subset=True)
    assert sorted(by_name(found)) == ["initialisation", "interactions", "order"]


def test_seeds_that_are_not_crossed_cannot_be_separated() -> None:
    seeds = [Seeds(0, 0, 0), Seeds(0, 1, 0), Seeds(1, 0, 0)]
    assert list(by_name(variance_sources(seeds, np.array([1.0, 2.0, 4.0])))) == ["subset and initialisation"]


def test_one_run_has_no_variance() -> None:
    assert variance_sources([Seeds.of(0)], np.array([0.5])) == ()


def test_of_an_accuracy_of_words_the_length_of_a_sentence_is_no_source() -> None:
    rng, accuracy, n = np.random.default_rng(4), 0.8, 400
    seeds, found, scores = [Seeds.of(0), Seeds.of(1)], [], []
    for _ in range(200):
        words = rng.integers(1, 40, n).astype(float)
        correct = np.tile(rng.binomial(words.astype(int), accuracy), (2, 1)).astype(float)
        x = correct / words.mean()
        scores.append(x[0].mean())
        found.append(by_name(variance_sources(seeds, x.mean(axis=1), x, words=words))["sentences"])
    assert np.mean(found) == pytest.approx(np.var(scores), rel=0.3)  # four standard errors of a variance of 200


def test_sentences_are_what_another_dev_set_of_the_size_would_change() -> None:
    rng, n_runs, n = np.random.default_rng(2), 4, 300
    found = []
    for _ in range(200):
        x = rng.normal(0, 0.1, (n_runs, 1)) + rng.normal(0, 2.0, n) + rng.normal(0, 3.0, (n_runs, n))
        found.append(by_name(variance_sources([Seeds.of(s) for s in range(n_runs)], x.mean(axis=1), x))["sentences"])
    assert np.mean(found) == pytest.approx(4.0 / n, rel=0.03)
