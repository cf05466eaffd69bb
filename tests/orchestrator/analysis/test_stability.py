"""Instability: what broke, what learned the most frequent label, and what is no evidence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from orchestrator.analysis.stability import clopper_pearson, instability, is_majority, majority_share
from tests.orchestrator.analysis.frames import trials


def tags(*rows: tuple[str, str, str, str, int]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["trial_id", "split", "level", "tag", "support"])


def test_majority_share_is_of_gold_labels_on_dev() -> None:
    found = majority_share(
        tags(
            ("a", "dev", "token", "NOUN", 30),
            ("a", "dev", "token", "VERB", 10),
            ("a", "test", "token", "NOUN", 1),
            ("a", "dev", "span", "PER", 99),
            ("b", "dev", "class", "pos", 0),
        )
    )
    assert found.to_dict() == pytest.approx({"a": 0.75, "b": np.nan}, nan_ok=True)
    assert len(majority_share(tags())) == 0


def test_a_label_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="a label twice"):
        majority_share(tags(("a", "dev", "token", "X", 1), ("a", "dev", "token", "X", 2)))


def test_only_completed_accuracy_at_the_share_is_majority() -> None:
    frame = trials({"none": [2 / 3, 2 / 3, 0.7, 2 / 3]})
    frame.loc[1, "state"] = "diverged"
    frame.loc[3, "metric"] = "macro_f1"
    share = pd.Series(1 - 1 / 3, frame["trial_id"])
    assert is_majority(frame, share).tolist() == [True, False, False, False]
    assert is_majority(frame, share, tolerance=0.05).tolist() == [True, False, True, False]
    assert not is_majority(frame, pd.Series(dtype=float)).any()


def test_instability_counts_what_is_evidence() -> None:
    frame = trials({"none": [0.6, 0.9, 0.9, 0.9, 0.9], "first 1": [0.9]})
    frame.loc[[1, 2, 5], "state"] = ["out_of_memory", "lost", "running"]
    found = instability(frame, pd.Series(0.6, frame["trial_id"])).set_index("cell")
    columns = ["n", "broken", "majority", "judged", "excluded"]
    assert found.loc["none", columns].tolist() == [4, 1, 1, 3, 1]
    assert found.loc["first 1", columns].tolist() == [0] * 5
    assert found.loc["none", "share"] == 0.5
    assert np.isnan(found.loc["first 1", ["share", "low", "high"]].to_numpy(dtype=float)).all()


def test_without_labels_only_what_broke_counts() -> None:
    frame = trials({"none": [0.6, 0.9]}, state=["failed", "completed"])
    assert instability(frame).iloc[0][["majority", "judged", "share"]].tolist() == [0, 0, 0.5]
    assert len(instability(trials({}))) == 0


@given(st.integers(0, 12), st.integers(1, 12), st.sampled_from([0.9, 0.95]))
def test_interval_is_scipys_exact_one(k: int, n: int, level: float) -> None:
    k = min(k, n)
    theirs = stats.binomtest(k, n).proportion_ci(level, "exact")
    low, high = clopper_pearson(np.array([float(k)]), np.array([float(n)]), level)
    assert (low[0], high[0]) == pytest.approx((theirs.low, theirs.high))
