"""Means with their intervals against published values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from orchestrator.analysis.describe import (
    Summary,
    describe,
    describe_cells,
    hull_of_intervals,
    logit_ends,
    moments,
    t_ends,
)
from tests.examples import each
from tests.orchestrator.analysis.frames import Floats, trials

SAMPLES = 20_000  # a share of 0.95 has a standard error of 0.0015
SKEWED = [(20.0, 2.0), (9.0, 1.0), (95.0, 1.0), (5.0, 0.5)]  # skewness -1.1, -1.5, -1.9, and single seeds collapse
# Student, "The Probable Error of a Mean", Biometrika 6 (1908): additional hours of sleep, second drug minus first.
SLEEP = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]


def ends(values: Sequence[float] | Floats, column: str = "score") -> tuple[float, float]:
    """The interval that the seeds of one cell have."""
    frame = pd.DataFrame({"cell": "none", "seed": range(len(values)), column: values})
    row = describe_cells(frame, ["cell"], column).iloc[0]
    return row["low"], row["high"]


def test_students_sleep_data_give_his_interval() -> None:
    assert ends(SLEEP, "value") == pytest.approx((0.7001142, 2.4598858), abs=1e-7)


@each("a, b", SKEWED)
@each("n", [2, 3, 5, 10, 20])
def test_score_interval_covers_at_least_93_percent_of_skewed_scores(a: float, b: float, n: int) -> None:
    """Beta(5, 0.5): half of the scores above 0.95, one in ten below 0.75. Worst at n = 5: 0.9306 of 400,000."""
    samples = np.random.default_rng(5).beta(a, b, SAMPLES * n)
    m = moments(samples, np.repeat(np.arange(SAMPLES), n), SAMPLES)
    low, high = hull_of_intervals(t_ends(m, 0.95), logit_ends(m, 0.95))
    share = ((low <= a / (a + b)) & (a / (a + b) <= high)).mean()
    assert share >= (0.93 if b >= 1 else 0.9306 - 3 * 0.0018)


def test_summary_of_nothing_one_and_three() -> None:
    assert describe([]).n == 0
    assert np.isnan(describe([])[1:]).all()
    assert describe([0.5])[:3] == (1, 0.5, 0.5)
    assert np.isnan(describe([0.5]).std)
    assert describe([1.0, 2.0, 6.0, float("nan")]) == pytest.approx(Summary(3, 3.0, 2.0, np.sqrt(7), 1.0, 6.0))


def test_cells_are_described_in_order_of_appearance_with_those_that_failed() -> None:
    frame = trials({"none": [0.9, 0.8, 0.7], "first 2": [0.5, 0.6], "first 4": [0.4]})
    frame.loc[frame["cell"] == "first 4", "state"] = "failed"
    found = describe_cells(frame, ["cell", "depth"], "score")
    assert found["cell"].tolist() == ["none", "first 2", "first 4"]
    assert found["depth"].tolist() == [0, 2, 4]
    assert found["n"].tolist() == [3, 2, 0]
    assert found["dots_only"].tolist() == [False, True, True]
    assert found["mean"].tolist()[:2] == pytest.approx([0.8, 0.55])
    assert np.isnan(found.loc[2, ["mean", "median", "std", "min", "max", "low", "high"]].to_numpy(dtype=float)).all()


def test_an_interval_of_seconds_does_not_reach_below_zero() -> None:
    frame = trials({"none": [0.5, 0.5, 0.5]}).assign(train_s=[0.2, 0.3, 0.9])
    row = describe_cells(frame, ["cell"], "train_s").iloc[0]
    assert ends([0.2, 0.3, 0.9], "value")[0] < 0 < row["low"] < row["mean"] < row["high"]
    assert row["low"] * row["high"] == pytest.approx(row["mean"] ** 2)


def test_scores_at_the_border_or_below_zero_keep_students_interval() -> None:
    assert ends([1.0, 1.0, 1.0]) == (1.0, 1.0)
    assert ends([-0.2, 0.3, 0.9]) == pytest.approx(ends([-0.2, 0.3, 0.9], "value"))
    with pytest.raises(ValueError, match="no column loss"):
        describe_cells(pd.DataFrame({"cell": ["a"]}), ["cell"], "loss")
