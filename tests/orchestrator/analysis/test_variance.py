"""Shares of the spread by factor, against published values and statsmodels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from orchestrator.analysis.variance import anova
from tests.examples import each
from tests.orchestrator.analysis.frames import sweep, trials

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
