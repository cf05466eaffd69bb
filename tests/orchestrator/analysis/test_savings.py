"""What freezing saves, and the settings that no other beats."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from orchestrator.analysis.savings import COSTS, default_saving, savings
from orchestrator.analysis.trial_frame import with_costs
from tests.orchestrator.analysis.frames import trials
from trials.record import TRAINING_COST

SCORES = {"none": [0.9, 0.9, 0.9], "first 2": [0.9, 0.9, 0.9]}


def timed(base: list[float], ours: list[float], prefix: float = 0.0) -> pd.DataFrame:
    frame = trials({"none": [0.9] * len(base), "first 2": [0.9] * len(ours)}, prefix_s=prefix)
    return with_costs(frame.assign(train_s=base + ours))


def row(frame: pd.DataFrame, cost: str = TRAINING_COST) -> pd.Series:
    return savings(frame, [cost]).iloc[0]


def test_saved_time_is_students_interval_of_log_ratios() -> None:
    base, ours = np.array([100.0, 110.0, 90.0, 130.0]), np.array([52.0, 50.0, 47.0, 60.0])
    found = row(timed(base.tolist(), ours.tolist()))
    logs = np.log(ours / base)
    low, high = stats.t.interval(0.95, 3, logs.mean(), stats.sem(logs))
    assert (found["saved"], found["low"], found["high"]) == pytest.approx(
        (1 - stats.gmean(ours / base), 1 - np.exp(high), 1 - np.exp(low))
    )
    assert (found["cost_mean"], found["baseline_mean"], found["note"]) == (ours.mean(), base.mean(), "")


def test_parameters_need_no_pairs_and_have_no_spread() -> None:
    frame = trials(SCORES, state="failed")
    found = row(frame, "trainable_params")
    assert (found["n_pairs"], found["saved"], found["low"], found["high"]) == (0, *[pytest.approx(200 / 910)] * 3)
    frame = trials({"first 2": [0.9]})
    assert row(frame, "trainable_params")["note"] == "no baseline"
    assert row(frame.assign(trainable_params=np.nan), "trainable_params")["note"] == "not recorded"


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"device": ["A"] * 3 + ["B"] * 3}, "different devices: A and B"),
        ({"device": ["A", "B", "A"] * 2}, "pairs on different devices"),
        ({"threads": [1.0] * 3 + [2.0] * 3}, "different threads: 1 and 2"),
        ({"gpus": [0.25] * 3 + [1.0] * 3}, "different shares of a GPU: 0.25 and 1"),
        ({"accumulation": [1.0] * 3 + [2.0] * 3}, "different numbers of parts of a batch: 1 and 2"),
        ({"worker_slots": [2.0] * 3 + [4.0] * 3}, "different numbers of trials at the same time: 2 and 4"),
        ({"device": None}, "device not recorded"),
        ({TRAINING_COST: 0.0}, "a cost of zero: no ratio"),
        ({"state": ["failed"] * 3 + ["completed"] * 3}, "baseline not measured"),
        ({"seed": range(6)}, "no pairs measured"),
    ],
)
def test_words_stand_where_there_is_no_figure(change: dict[str, object], note: str) -> None:
    found = row(trials(SCORES).assign(**change))
    assert found["note"] == note
    assert np.isnan(found[["saved", "low", "high"]].to_numpy(dtype=float)).all()


def test_a_pair_across_devices_is_left_out_and_counted_and_what_newer_trials_record_parts_none() -> None:
    found = row(trials(SCORES, device=["A"] * 5 + ["B"]))
    assert (found["n_pairs"], found["note"]) == (2, "1 pair left out (different devices: A and B)")
    found = row(trials(SCORES, worker_slots=[np.nan] * 3 + [2.0] * 3))
    assert (found["n_pairs"], found["note"]) == (3, "")


def test_counted_operations_compare_across_devices_and_vary_with_padding() -> None:
    flops = [6e12, 7e12, 8e12, 3e12, 3.5e12, 4.4e12]
    found = row(trials(SCORES, device=["A"] * 3 + ["B"] * 3, training_flops=flops), "training_flops")
    assert (found["n_pairs"], found["note"]) == (3, "")
    assert found["saved"] == pytest.approx(1 - (0.5 * 0.5 * 0.55) ** (1 / 3))
    assert found["low"] < found["saved"] < found["high"] < 1


def test_energy_and_operations_that_were_not_counted_are_not_recorded() -> None:
    frame = trials(SCORES, training_flops=np.nan)
    assert row(frame, "training_flops")["note"] == "not recorded"
    assert default_saving(trials(SCORES)) == "training_flops"
    assert default_saving(trials(SCORES, training_flops=[1e12] * 5 + [np.nan])) == "trainable_params"
    assert savings(trials(SCORES)).set_index("cost").loc["energy_j", "note"] == "baseline not measured"
    found = row(timed([10.0], [4.0]))
    assert found["saved"] == pytest.approx(0.6)
    assert np.isnan(found["low"])


def test_memory_recorded_on_a_cpu_is_no_trials_memory() -> None:
    frame = trials(SCORES)
    assert row(frame, "peak_memory_bytes")["saved"] == pytest.approx(1 - 5 / 7)
    found = row(with_costs(frame.assign(device="cpu AMD EPYC")), "peak_memory_bytes")
    assert (found["note"], found["n_pairs"]) == ("not measured: resident memory of a warm worker", 0)


def test_all_costs_come_in_one_table_and_an_unknown_one_is_refused() -> None:
    assert savings(trials(SCORES))["cost"].tolist() == list(COSTS)
    assert savings(trials({}))["cost"].tolist() == []
    with pytest.raises(ValueError, match="unknown cost money"):
        savings(trials(SCORES), ["money"])
    assert row(with_costs(trials(SCORES).drop(columns="prefix_s")))["cost_mean"] == 41.0
    frame = timed([10.0, 10.0], [3.0, 3.0], prefix=[0.0, 0.0, 2.0, np.nan])  # type: ignore[arg-type]
    assert row(frame)["cost_mean"] == 4.0
