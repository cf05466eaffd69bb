"""The Pareto front: by definition, and how often resampled seeds keep a cell on it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.pareto import front, pareto
from tests.orchestrator.analysis.frames import sweep, trials

points = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12)


@given(points)
def test_front_is_what_no_other_point_beats(found: list[tuple[int, int]]) -> None:
    cost, score = np.array(found, dtype=np.float64).T
    beaten = [any(c <= a and s >= b and (c, s) != (a, b) for c, s in found) for a, b in found]
    assert front(cost, score).tolist() == [not lost for lost in beaten]


def test_front_of_several_draws_is_each_ones() -> None:
    rng = np.random.default_rng(0)
    cost, score = rng.integers(0, 5, (2, 20, 7)).astype(np.float64)
    rows = [front(c, s) for c, s in zip(cost, score, strict=True)]
    assert (front(cost, score) == np.array(rows)).all()


def test_what_is_not_known_is_never_on_the_front() -> None:
    assert front(np.array([1.0, np.nan, 0.0]), np.array([0.5, 0.9, np.nan])).tolist() == [True, False, False]
    assert front(np.empty(0), np.empty(0)).tolist() == []


def test_clear_cells_are_surely_on_or_off_the_front() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.0, "first 4": 0.1, "last 4": 0.2}, 5, 0.002)
    found = pareto(frame, "train_s", 0).set_index("cell")
    assert found["on_front"].to_dict() == {"none": False, "first 2": True, "first 4": True, "last 4": False} | {
        "none": bool(found.loc["none", "on_front"])
    }
    assert found.loc[["first 2", "first 4", "last 4"], "probability"].tolist() == [1.0, 1.0, 0.0]
    assert 0 <= found.loc["none", "probability"] <= 1
    assert found["cost"].to_dict() == pytest.approx({"none": 61, "first 2": 42, "first 4": 22, "last 4": 22})


def test_pairs_share_the_luck_of_their_seed() -> None:
    """Better by a hair under every seed: sure if paired, a coin's toss if seeds were drawn cell by cell."""
    luck = np.random.default_rng(0).normal(0, 0.05, 8)
    frame = trials({"none": (0.8 + luck).tolist(), "first 1": (0.801 + luck).tolist()})
    assert pareto(frame, "trainable_params", 0).set_index("cell")["probability"].to_dict() == {"none": 0, "first 1": 1}


def test_equal_means_stand_or_fall_together() -> None:
    frame = trials({"none": [0.5], "first 1": [0.7, 0.8, 0.9], "last 1": [0.7, 0.8, 0.9]})
    found = pareto(frame, "train_s", 1).set_index("cell")
    assert found["probability"].tolist() == [0, 1, 1]


def test_a_draw_without_a_cells_seeds_leaves_it_out() -> None:
    frame = trials({"none": [0.5, 0.6, 0.4, 0.5], "first 1": [0.9]})
    assert pareto(frame, "train_s", 1).set_index("cell").loc["first 1", "probability"] == 1


def test_the_same_seed_gives_the_same_probabilities() -> None:
    frame = sweep(np.random.default_rng(0), {"first 1": 0.001}, 5)
    pd.testing.assert_frame_equal(pareto(frame, "train_s", 4), pareto(frame, "train_s", np.random.default_rng(4)))


def test_many_draws_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.analysis.pareto._AT_ONCE", 10)
    frame = trials({"none": [0.5, 0.6], "first 1": [0.4, 0.7]})
    assert pareto(frame, "train_s", 0, resamples=11)["probability"].between(0, 1).all()


def test_groups_and_devices_are_not_mixed() -> None:
    frame = trials({"none": [0.5], "first 1": [0.6]})
    with pytest.raises(ValueError, match="2 objective groups"):
        pareto(frame.assign(group=["a", "b"]), "train_s", 0)
    with pytest.raises(ValueError, match="train_s was measured on 2 devices"):
        pareto(frame.assign(device=["cpu", "gpu"]), "train_s", 0)
    assert len(pareto(frame.assign(device=["cpu", "gpu"]), "trainable_params", 0)) == 2
