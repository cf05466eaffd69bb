"""Instability: what broke, what collapsed, and what is no evidence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from orchestrator.analysis.stability import clopper_pearson, instability
from tests.orchestrator.analysis.frames import trials


def test_instability_counts_what_is_evidence() -> None:
    frame = trials({"none": [0.6, 0.9, 0.9, 0.9, 0.9], "first 1": [0.9]})
    frame = frame.assign(collapsed=[1.0, np.nan, np.nan, 0.0, 0.0, np.nan])
    frame.loc[[1, 2, 5], "state"] = ["out_of_memory", "lost", "running"]
    found = instability(frame).set_index("cell")
    columns = ["n", "broken", "collapsed", "judged", "excluded"]
    assert found.loc["none", columns].tolist() == [4, 1, 1, 3, 1]
    assert found.loc["first 1", columns].tolist() == [0] * 5
    assert found.loc["none", "share"] == 0.5
    assert np.isnan(found.loc["first 1", ["share", "low", "high"]].to_numpy(dtype=float)).all()


def test_where_collapses_were_not_recorded_only_what_broke_counts() -> None:
    frame = trials({"none": [0.6, 0.9]}, state=["failed", "completed"])
    assert instability(frame).iloc[0][["collapsed", "judged", "share"]].tolist() == [0, 0, 0.5]
    assert len(instability(trials({}))) == 0


@given(st.integers(0, 12), st.integers(1, 12), st.sampled_from([0.9, 0.95]))
def test_interval_is_scipys_exact_one(k: int, n: int, level: float) -> None:
    k = min(k, n)
    theirs = stats.binomtest(k, n).proportion_ci(level, "exact")
    low, high = clopper_pearson(np.array([float(k)]), np.array([float(n)]), level)
    assert (low[0], high[0]) == pytest.approx((theirs.low, theirs.high))
