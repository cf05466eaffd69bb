"""Differences to the baseline: intervals, verdicts that follow from them, and what is said where there are none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orchestrator.analysis.differences import differences
from scipy import stats

from orchestrator.analysis.paired import pair
from tests.examples import examples
from tests.orchestrator.analysis.frames import Floats, sweep, trials, with_dev_sentences
from tests.orchestrator.analysis.samples import SLEEP
from tests.peers import times_of


def one_cell(values: Floats | list[float]) -> pd.DataFrame:
    """A cell whose differences to the baseline are these (kept off the scores' digits: the baseline is 0)."""
    return trials({"none": [0.0] * len(values), "first 2": list(values)})


def test_the_end_towards_gains_of_whole_seeds_is_students() -> None:
    row = differences(one_cell(SLEEP)).iloc[0]
    far = stats.t.ppf(0.975, 9) * SLEEP.std(ddof=1) / np.sqrt(10)
    assert (row["mean"], row["high"]) == pytest.approx((1.58, 1.58 + far))
    assert row["low"] < 1.58 - far  # towards losses the guard against skewed ones makes it longer


def test_sentences_widen_an_interval_that_seeds_alone_make_too_sure() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.01}, 5, spread=0.0005)
    alone, both = (differences(f).iloc[0] for f in (frame, with_dev_sentences(frame, np.random.default_rng(1))))
    assert both["high"] - both["low"] > 3 * (alone["high"] - alone["low"])
    assert (pd.isna(alone["n_sentences"]), both["n_sentences"]) == (True, 400)
    assert both["mean"] == pytest.approx(alone["mean"], abs=1e-12)


def test_verdicts_are_read_off_the_interval_that_decides() -> None:
    rng = np.random.default_rng(2)
    found = differences(sweep(rng, {"first 1": -0.02, "first 2": 0.0, "first 4": 0.03}, 8, 0.004))
    sides = np.where(found["low_all"] > 0, "better", np.where(found["high_all"] < 0, "worse", "no difference shown"))
    assert found["verdict"].tolist() == sides.tolist() == ["better", "no difference shown", "worse"]
    assert (found["low_all"] <= found["low"]).all()
    assert (found["high_all"] >= found["high"]).all()


def test_the_family_is_the_objective_group() -> None:
    frame = sweep(np.random.default_rng(2), {"first 1": 0.01, "first 2": 0.01, "first 4": 0.01}, 8)
    other = frame.assign(group="other", cell=frame["cell"] + "'", baseline=frame["baseline"] + "'")
    alone, both = differences(frame), differences(pd.concat([frame, other]))
    assert both["low_all"].tolist() == pytest.approx(alone["low_all"].tolist() * 2)
    assert alone["method"].str.startswith("max-t over 3 settings").all()


def test_before_the_first_look_nothing_decides() -> None:
    row = differences(one_cell([-0.1, -0.11])).iloc[0]
    assert row["verdict"] == "no difference shown"
    assert np.isnan(row["low_all"])
    assert np.isfinite(row["low"])


def test_seeds_without_partner_are_counted_and_left_out() -> None:
    frame = trials({"none": [0.5, 0.6, 0.7], "first 2": [0.6, 0.7, 0.8]})
    frame.loc[[0, 5], "state"] = "failed"  # seed 0 of the baseline, seed 2 of the cell
    row = differences(frame).iloc[0]
    assert (row["n_pairs"], row["unpaired"], row["mean"]) == (1, 2, pytest.approx(0.1))
    assert row["verdict"] == "one pair: no interval"


def test_no_baseline_no_pairs_and_no_difference_are_words() -> None:
    frame = trials({"none": [0.5, 0.5], "first 1": [0.5, 0.5], "first 2": [0.6, 0.6]})
    lone = trials({"first 4": [0.5]}).assign(baseline="gone", cell="lone")
    late = trials({"first 6": [0.5]}).assign(seed=9)
    found = differences(pd.concat([frame, lone, late])).set_index("cell")
    assert found["verdict"].to_dict() == {
        "first 1": "no pair differs",
        "first 2": "all 2 pairs differ by the same: no interval",
        "lone": "no baseline",
        "first 6": "no pairs",
    }
    assert np.isnan(found[["low", "high", "low_all", "high_all"]].to_numpy(dtype=float)).all()


def test_a_seed_twice_is_refused() -> None:
    frame = trials({"none": [0.5], "first 2": [0.6]})
    with pytest.raises(ValueError, match="cell first 2 has two completed trials of seed 0"):
        differences(pd.concat([frame, frame.iloc[[1]]]))


def test_a_seed_failed_and_tried_again_is_one_trial() -> None:
    frame = trials({"none": [0.5], "first 2": [0.6]})
    again = pd.concat([frame, frame.iloc[[1]].assign(state="failed")])
    assert differences(again)["n_pairs"].tolist() == [1]


def test_pairs_carry_both_sides_of_what_is_asked() -> None:
    found = pair(trials({"none": [0.5, 0.6], "first 2": [0.7, 0.9]}), "score", keep=["device", "train_s"])
    assert found.rows[["score", "score_base", "train_s", "train_s_base"]].iloc[1].tolist() == [0.9, 0.6, 41.0, 61.0]
    assert found.rows["difference"].tolist() == pytest.approx([0.2, 0.3])


@settings(max_examples=examples(8))
@given(st.integers(0, 10**6), st.integers(2, 9), st.floats(-0.3, 0.3))
def test_rows_may_come_in_any_order_and_scores_may_shift(seed: int, n: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    frame = sweep(rng, {"first 1": 0.01, "first 2": 0.02}, n)
    mixed = frame.iloc[rng.permutation(len(frame))].assign(score=lambda rows: rows["score"] + shift)
    columns = ["mean", "median", "low", "high", "low_all", "high_all"]
    before, after = (differences(each).set_index("cell")[columns] for each in (frame, mixed))
    pd.testing.assert_frame_equal(before, after.loc[before.index], rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_comparing_two_thousand_cells_takes_less_than_ten_loops_over_them() -> None:
    names = np.array([f"c{i}" for i in range(2000)])
    frame = pd.DataFrame({"cell": np.repeat(names, 10), "seed": np.tile(np.arange(10), 2000)})
    frame["baseline"] = np.repeat(names[np.arange(2000) // 20 * 20], 10)
    frame = frame.assign(group=frame["baseline"], score=np.random.default_rng(0).beta(20, 2, len(frame)))
    assert len(differences(frame)) == 1900
    took = times_of(lambda: differences(frame), lambda: [cell.mean() for _, cell in frame.groupby("cell")["score"]])
    assert took < 10
