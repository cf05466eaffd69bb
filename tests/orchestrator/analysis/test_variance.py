"""Shares of the spread by factor and by source of randomness: known values, and coverage by simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from orchestrator.analysis.variance import VarianceSource, adjusted_means, anova, variance_sources
from tests.examples import each
from tests.orchestrator.analysis.frames import sweep, trials
from trials.settings import Seeds

# Dried plant weights: A. Dobson, "An Introduction to Statistical Modelling" (1983); `PlantGrowth` of R.
PLANTS = {
    "ctrl": [4.17, 5.58, 5.18, 6.11, 4.50, 4.61, 5.17, 4.53, 5.33, 5.14],
    "trt1": [4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69],
    "trt2": [6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26],
}


def crossed(rng: np.random.Generator, n: int = 60) -> pd.DataFrame:
    """Unbalanced: some of all combinations of two factors."""
    frame = pd.DataFrame({"depth": rng.integers(0, 4, n), "size": rng.choice(["small", "large"], n)})
    return frame.assign(score=0.1 * frame["depth"] + (frame["size"] == "large") + rng.standard_normal(n))


def test_plant_weights_give_the_published_table_and_an_interval_of_the_noncentralities_that_would() -> None:
    rows = [(name, value) for name, found in PLANTS.items() for value in found]
    found = anova(pd.DataFrame(rows, columns=["group", "score"]), ["group"])
    group, residual = (row for _, row in found.table.iterrows())
    assert (group["df"], residual["df"]) == (2, 27)
    assert (group["sum_sq"], residual["sum_sq"]) == pytest.approx((3.76634, 10.49209), abs=1e-5)
    assert (group["f"], group["p"]) == pytest.approx((4.846, 0.01591), abs=1e-3)
    assert [group["eta_sq"], group["partial_eta_sq"]] == pytest.approx([found.r_sq] * 2)
    for end, p in (("low", 0.975), ("high", 0.025)):
        noncentrality = 27 * group[end] / (1 - group[end])
        assert stats.ncf.cdf(group["f"], 2, 27, noncentrality) == pytest.approx(p, abs=1e-4)


def test_unbalanced_factors_are_those_of_statsmodels_type_two() -> None:
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    frame = crossed(np.random.default_rng(0))
    theirs = anova_lm(ols("score ~ C(depth) + C(size)", frame).fit(), typ=2)
    ours = anova(frame, ["depth", "size"]).table.set_index("factor")
    for name, label in (("depth", "C(depth)"), ("size", "C(size)"), ("residual", "Residual")):
        assert ours.loc[name, ["sum_sq", "df", "f", "p"]].tolist() == pytest.approx(
            theirs.loc[label].tolist(), nan_ok=True
        )
    assert set(ours["n"]) == {60}


@pytest.mark.parametrize(("own", "other"), [("depth", "size"), ("size", "depth")])
def test_adjusted_means_are_the_coefficients_of_statsmodels_beside_effects_that_add_up_to_zero(
    own: str, other: str
) -> None:
    from statsmodels.formula.api import ols

    frame = crossed(np.random.default_rng(0))
    theirs = ols(f"score ~ 0 + C({own}) + C({other}, Sum)", frame).fit()
    ours = adjusted_means(frame, ["depth", "size"]).set_index("factor").loc[own]
    n = len(ours)
    assert ours["mean"].tolist() == pytest.approx(theirs.params[:n].tolist())
    assert ours[["low", "high"]].to_numpy() == pytest.approx(theirs.conf_int().to_numpy()[:n])
    assert ours["n"].tolist() == frame[own].value_counts().sort_index().tolist()


def test_a_level_that_a_sweep_with_gaps_does_not_determine_has_no_mean() -> None:
    rows = [("a", 1, 0.0), ("a", 1, 0.2), ("a", 2, 1.0), ("b", 1, 0.4), ("c", 3, 0.7), ("c", 3, 0.9)]
    found = adjusted_means(pd.DataFrame(rows, columns=["corpus", "size", "score"]), ["corpus", "size"])
    assert found["mean"].isna().all()  # what c and 3 do cannot be told apart, and each mean averages over both
    known = adjusted_means(pd.DataFrame(rows[:4], columns=["corpus", "size", "score"]), ["corpus", "size"])
    assert known["mean"].tolist() == pytest.approx([0.55, 0.85, 0.25, 1.15])
    assert known["low"].notna().all()
    assert len(adjusted_means(pd.DataFrame({"depth": [1, 1], "score": [0.1, 0.2]}), ["depth"])) == 0


def test_factors_without_information_are_dropped_and_named() -> None:
    frame = sweep(np.random.default_rng(0), {"first 1": 0.01, "first 2": 0.02, "last 2": 0.02}, 3)
    found = anova(frame, ["freeze", "depth", "seed", "device", "freeze"])
    assert found.dropped == {"device": "one level", "depth": "fixed by freeze"}
    assert found.table["factor"].tolist() == ["freeze", "seed", "residual"]


def test_a_factor_fixed_by_two_others_together_names_both() -> None:
    frame = pd.DataFrame({"a": [0, 0, 1, 1] * 3, "b": [0, 1, 0, 1] * 3, "score": np.arange(12.0) ** 1.5})
    frame["both"] = frame["a"].astype(str) + frame["b"].astype(str)
    assert anova(frame, ["both", "a", "b"]).dropped == {"b": "fixed by both", "a": "fixed by both"}
    frame["either"] = frame["a"] + 2 * frame["b"]  # 0..3: as `both`
    sums = frame.assign(third=[0, 1, 1, 2] * 3).iloc[[0, 1, 2, 4, 5, 6]]
    assert anova(sums, ["a", "b", "third"]).dropped == {"third": "fixed by a and b"}


def test_in_an_unbalanced_sweep_what_two_factors_explain_together_makes_the_shares_add_up() -> None:
    frame = pd.DataFrame({"a": [0, 0, 0, 1, 1, 1], "b": [0, 0, 1, 1, 1, 0], "score": [1.0, 1.1, 1.6, 2.0, 2.2, 1.4]})
    shares = anova(frame, ["a", "b"]).table.set_index("factor")["eta_sq"]
    assert shares["shared"] > 0.1
    assert shares.sum() == pytest.approx(1)


@each(
    "frame, reason",
    [
        (trials({}), "no completed trial"),
        (trials({"none": [0.9]}), "one level"),
        (trials({"none": [0.9, 0.8]}, state="failed"), "no completed trial"),
        (trials({"none": [np.nan, np.nan]}), "no completed trial"),
        (trials({"none": [0.9, 0.9], "first 1": [0.9, 0.9]}), "all scores are equal"),
    ],
)
def test_nothing_to_analyse_is_an_empty_table_with_a_reason(frame: pd.DataFrame, reason: str) -> None:
    found = anova(frame, ["freeze"])
    assert (len(found.table), found.dropped) == (0, {"freeze": reason})
    assert np.isnan(found.r_sq)


def test_without_residual_freedom_shares_stand_without_tests_and_a_missing_level_is_a_level() -> None:
    found = anova(trials({"none": [0.9], "first 1": [0.8]}), ["freeze"])
    assert found.table["eta_sq"].tolist() == [1, 0]
    assert found.table["p"].isna().all()
    assert found.r_sq == 1
    frame = pd.DataFrame({"a": ["x", "x", None, None], "score": [1.0, 1.1, 2.0, 2.1]})
    assert anova(frame, ["a"]).table["df"].tolist() == [1, 2]


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


def test_seeds_that_go_together_are_one_source() -> None:
    (only,) = variance_sources([Seeds.of(seed) for seed in range(3)], np.array([1.0, 2.0, 3.0]))
    assert only.names == ("subset", "initialisation", "order")
    assert (only.variance, only.levels, only.df) == (1.0, 3, 2)
    assert (only.low, only.high) == pytest.approx((0.2711, 39.50), rel=1e-3)  # 2 / chi squared of 2 degrees of freedom


def test_intervals_hold_the_variance_of_a_source_in_95_percent_of_sweeps() -> None:
    rng, n, variance = np.random.default_rng(3), 1000, 0.5
    seeds = [each for each in CROSSED if max(each) < 3]
    found = [variance_sources(seeds, simulated(rng, seeds, (1.0, variance**0.5, 0.0), 1.0)) for _ in range(n)]
    for source, true in zip(range(4), (1.0, variance, 0.0, 1.0), strict=True):
        held = np.mean([each[source].low <= true <= each[source].high for each in found])
        assert 0.935 <= held <= 0.995


def test_sources_that_seeds_do_not_separate_are_one_and_what_never_changes_is_none() -> None:
    together = [Seeds.of(seed, init) for seed in range(3) for init in range(3)]
    sources = by_name(variance_sources(together, np.random.default_rng(0).normal(size=9)))
    assert list(sources) == ["subset and order", "initialisation", "interactions"]
    few = [Seeds.of(seed, init) for seed in range(2) for init in range(2)]
    same = variance_sources(few, np.arange(4.0), same_subset=True)
    assert sorted(by_name(same)) == ["initialisation", "interactions", "order"]
    uncrossed = variance_sources([Seeds(0, 0, 0), Seeds(0, 1, 0), Seeds(1, 0, 0)], np.array([1.0, 2.0, 4.0]))
    assert list(by_name(uncrossed)) == ["subset and initialisation"]
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
