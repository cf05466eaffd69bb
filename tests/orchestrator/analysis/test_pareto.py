"""The Pareto front, by its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.pareto import front, pareto
from tests.orchestrator.analysis.frames import sweep, trials

points = st.integers(1, 3).flatmap(lambda k: st.lists(st.tuples(*[st.integers(0, 4)] * k), min_size=1, max_size=12))


@given(points)
def test_front_is_what_no_other_point_beats(values: list[tuple[int, ...]]) -> None:
    beaten = [any(all(o >= p for o, p in zip(other, one, strict=True)) and other != one for other in values)
              for one in values]  # fmt: skip
    assert front(np.array(values, dtype=np.float64)).tolist() == [not lost for lost in beaten]


def test_what_is_not_known_is_never_on_the_front() -> None:
    assert front(np.array([[1.0, 0.5], [np.nan, 0.9], [0.0, np.nan]])).tolist() == [True, False, False]
    assert front(np.empty((0, 2))).tolist() == []


def test_means_of_score_and_cost_decide() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.0, "first 4": 0.1, "last 4": 0.2}, 5, 0.002)
    table = pareto(frame, "train_s").set_index("cell")
    assert table["on_front"].drop("none").to_dict() == {"first 2": True, "first 4": True, "last 4": False}
    assert table["cost"].to_dict() == pytest.approx({"none": 61, "first 2": 41, "first 4": 21, "last 4": 21})


def test_equal_means_stand_or_fall_together_whatever_the_order_of_summation() -> None:
    frame = trials({"none": [0.5], "first 1": [0.7, 0.8, 0.9], "last 1": [0.9, 0.7, 0.8]})
    assert pareto(frame, "train_s")["on_front"].tolist() == [False, True, True]


def test_groups_and_devices_are_not_mixed() -> None:
    frame = trials({"none": [0.5], "first 1": [0.6]})
    with pytest.raises(ValueError, match="2 objective groups"):
        pareto(frame.assign(group=["a", "b"]), "train_s")
    with pytest.raises(ValueError, match="train_s was measured on 2 devices"):
        pareto(frame.assign(device=["cpu", "gpu"]), "train_s")
    assert len(pareto(frame.assign(device=["cpu", "gpu"]), "trainable_params")) == 2
