"""Paired differences: known answers, error rates by simulation, and what is said of pairs that cannot decide."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from orchestrator.analysis.moments import guarded_two_sided, hall_ends, hall_statistic, t_statistic, two_sided
from orchestrator.analysis.paired import differences, pair
from tests.examples import examples
from tests.orchestrator.analysis.frames import Floats, sweep, trials
from tests.orchestrator.analysis.samples import MAIZE, SLEEP, Draw, covered, rows_moments
from tests.peers import times_of

SAMPLES = 20_000  # an error rate of 5 % has a standard error of 0.15 %
SKEWED: dict[str, Draw] = {  # all of mean 0; skewness -1.0, -1.1, -1.4, -1.7
    "gamma": lambda rng, shape: 4 - rng.gamma(4, 1, shape),
    "accuracies": lambda rng, shape: rng.beta(20, 2, shape) - rng.beta(200, 20, shape),
    "unstable accuracies": lambda rng, shape: rng.beta(9, 1, shape) - rng.beta(90, 10, shape),
    "lognormal": lambda rng, shape: np.exp(0.125) - rng.lognormal(0, 0.5, shape),
}


def one_cell(values: Floats | list[float]) -> pd.DataFrame:
    """A cell whose differences to the baseline are these (kept off the scores' digits: the baseline is 0)."""
    return trials({"none": [0.0] * len(values), "first 2": list(values)})


def test_students_sleep_data_give_his_t_test() -> None:
    row = differences(one_cell(SLEEP), exact="all").iloc[0]
    assert (row["mean"], row["p_t"]) == pytest.approx((1.58, 0.002833), abs=1e-6)
    assert (row["low"], row["high"]) == pytest.approx((0.7001142, 2.4598858), abs=1e-7)


def test_darwins_maize_gives_fishers_two_p_values() -> None:
    row = differences(one_cell(MAIZE), exact=["first 2"]).iloc[0]
    assert row["p_t"] == pytest.approx(0.0497, abs=1e-4)
    assert row["p_permutation"] == 1726 / 32768


@pytest.mark.parametrize("n", [3, 5, 10])
def test_t_test_errs_in_4_to_6_percent_of_normal_differences(n: int) -> None:
    m = rows_moments(np.random.default_rng(n).standard_normal((SAMPLES, n)))
    assert 0.04 <= (two_sided(m, t_statistic(m)) <= 0.05).mean() <= 0.06


@pytest.mark.parametrize("n", [3, 5, 10, 20])
@pytest.mark.parametrize("draw", SKEWED.values(), ids=SKEWED.keys())
def test_guarded_test_errs_in_at_most_6_percent_of_skewed_differences(draw: Draw, n: int) -> None:
    m = rows_moments(draw(np.random.default_rng(n), (SAMPLES, n)))
    assert (guarded_two_sided(m) <= 0.05).mean() <= 0.06


def test_exponential_tails_break_the_t_test_and_hardly_the_guarded_one() -> None:
    m = rows_moments(1 - np.random.default_rng(0).exponential(1, (SAMPLES, 5)))
    assert (two_sided(m, t_statistic(m)) <= 0.05).mean() > 0.10
    assert (guarded_two_sided(m) <= 0.05).mean() < 0.068  # 6.2 % by 40,000


def test_halls_ends_are_where_his_statistic_is_students_quantile() -> None:
    m = rows_moments(SLEEP[None])
    low, high = hall_ends(m, 0.95)
    quantile = stats.t.ppf(0.975, 9)
    assert hall_statistic(m, float(low[0])) == pytest.approx(quantile)
    assert hall_statistic(m, float(high[0])) == pytest.approx(-quantile)


def test_halls_ends_without_skewness_are_students() -> None:
    m = rows_moments(np.array([[-2.0, -1.0, 0.0, 1.0, 2.0]]))
    assert hall_ends(m, 0.9)[1] == pytest.approx(stats.t.ppf(0.95, 4) * np.sqrt(2.5 / 5))


def test_guarded_interval_covers_what_students_misses() -> None:
    m = rows_moments(SKEWED["lognormal"](np.random.default_rng(1), (SAMPLES, 5)))
    assert covered(hall_ends(m, 0.95), 0.0) > 0.92


def test_seeds_without_partner_are_counted_and_left_out() -> None:
    frame = trials({"none": [0.5, 0.6, 0.7], "first 2": [0.6, 0.7, 0.8]})
    frame.loc[[0, 5], "state"] = "failed"  # seed 0 of the baseline, seed 2 of the cell
    row = differences(frame).iloc[0]
    assert (row["n_pairs"], row["unpaired"], row["mean"]) == (1, 2, pytest.approx(0.1))
    assert row["verdict"] == "one pair: no test"


def test_five_pairs_cannot_reach_five_percent_exactly() -> None:
    row = differences(one_cell([0.01, 0.03, -0.02, 0.02, 0.01]), exact="all").iloc[0]
    assert row["reachable"] == 0.0625
    assert row["verdict"].endswith("an exact test cannot reach 5 % with 5 pairs")
    assert "not significant" not in row["verdict"]


def test_six_pairs_suffice_for_one_cell_and_not_among_three() -> None:
    rng = np.random.default_rng(0)
    alone = differences(sweep(rng, {"first 1": 0.0}, 6))["verdict"].tolist()
    among = differences(sweep(rng, {"first 1": 0.0, "first 2": 0.0, "first 4": 0.0}, 6))["verdict"].tolist()
    assert not any("cannot" in verdict for verdict in alone)
    assert all(verdict.endswith("cannot reach 5 % with 6 pairs among 3 cells") for verdict in among)


def test_a_clear_difference_of_five_pairs_rests_on_the_t_test() -> None:
    row = differences(one_cell([-0.10, -0.11, -0.09, -0.10, -0.105])).iloc[0]
    assert row["verdict"] == "worse by the t test; an exact test cannot reach 5 % with 5 pairs"
    assert (row["decided"], row["further_seeds"]) == (True, 0)


def test_more_pairs_decide_without_a_proviso() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": -0.02, "first 4": 0.0}, 10)
    assert differences(frame)["verdict"].tolist()[0] == "better"
    assert differences(frame)["verdict"].tolist()[1].startswith("no difference shown (Holm p = ")


def test_the_family_of_holm_is_the_objective_group() -> None:
    frame = sweep(np.random.default_rng(2), {"first 1": 0.01, "first 2": 0.01, "first 4": 0.01}, 8)
    other = frame.assign(group="other", cell=frame["cell"] + "'", baseline=frame["baseline"] + "'")
    alone, both = differences(frame), differences(pd.concat([frame, other]))
    assert both["p_holm"].tolist() == pytest.approx(alone["p_holm"].tolist() * 2)
    assert (alone["p_holm"] > alone["p_guarded"]).any()


def test_effect_is_the_standardised_mean_with_hedges_factor() -> None:
    row = differences(one_cell(SLEEP)).iloc[0]
    plain = SLEEP.mean() / SLEEP.std(ddof=1)
    assert row["effect"] == pytest.approx(plain * (1 - 3 / (4 * 9 - 1)), rel=1e-3)  # his approximation


def test_open_cells_say_how_many_seeds_more() -> None:
    row = differences(one_cell([0.02, -0.005, 0.015, 0.0, 0.02])).iloc[0]
    assert not row["decided"]
    # d_z is 0.85 x 0.80; TTestPower: 19 pairs at an effect of 0.68, so 14 more
    assert row["further_seeds"] == 14


def test_no_baseline_no_pairs_and_no_difference_are_words() -> None:
    frame = trials({"none": [0.5, 0.5], "first 1": [0.5, 0.5], "first 2": [0.6, 0.6]})
    lone = trials({"first 4": [0.5]}).assign(baseline="gone", cell="lone")
    late = trials({"first 6": [0.5]}).assign(seed=9)
    found = differences(pd.concat([frame, lone, late]), exact="all").set_index("cell")
    assert found["verdict"].to_dict() == {
        "first 1": "no pair differs",
        "first 2": "all 2 pairs differ by the same: no t test",
        "lone": "no baseline",
        "first 6": "no pairs",
    }
    assert found.loc["first 1", "p_t"] == 1
    assert np.isnan(found.loc[["first 2", "lone", "first 6"], "p_guarded"]).all()
    assert found["further_seeds"].isna().all()
    assert np.isnan(found.loc["lone", ["p_permutation", "p_wilcoxon"]].to_numpy(dtype=float)).all()


def test_a_seed_twice_is_refused() -> None:
    frame = trials({"none": [0.5], "first 2": [0.6]})
    with pytest.raises(ValueError, match="cell first 2 has two completed trials of seed 0"):
        differences(pd.concat([frame, frame.iloc[[1]]]))


def test_a_seed_failed_and_tried_again_is_one_trial() -> None:
    frame = trials({"none": [0.5], "first 2": [0.6]})
    again = pd.concat([frame, frame.iloc[[1]].assign(state="failed")])
    assert differences(again)["n_pairs"].tolist() == [1]


def test_exact_tests_run_for_the_named_cells_only() -> None:
    found = differences(sweep(np.random.default_rng(0), {"first 1": 0, "first 2": 0}, 6), exact=["first 2"])
    assert found["p_permutation"].notna().tolist() == [False, True]
    assert found["p_wilcoxon"].notna().tolist() == [False, True]


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
    columns = ["mean", "low", "high", "p_t", "p_guarded", "p_holm", "p_permutation", "p_wilcoxon", "effect"]
    before = differences(frame, exact="all").set_index("cell")[columns]
    after = differences(mixed, exact="all").set_index("cell")[columns]
    pd.testing.assert_frame_equal(before, after.loc[before.index], rtol=1e-6, atol=1e-9)


@settings(max_examples=examples(8))
@given(st.integers(0, 10**6), st.floats(0.1, 50))
def test_p_values_do_not_depend_on_the_unit_and_sides_mirror(seed: int, scale: float) -> None:
    values = np.random.default_rng(seed).standard_normal(7)
    ours, scaled, mirrored = (
        differences(one_cell(found), exact="all").iloc[0] for found in (values, scale * values, -values)
    )
    names = ["p_t", "p_guarded", "p_permutation", "p_wilcoxon"]
    assert scaled[names].tolist() == pytest.approx(ours[names].tolist())
    assert mirrored[names].tolist() == pytest.approx(ours[names].tolist())
    assert mirrored["low_guarded"] == pytest.approx(-ours["high_guarded"])


def test_comparing_two_thousand_cells_takes_less_than_three_loops_over_them() -> None:
    names = np.array([f"c{i}" for i in range(2000)])
    frame = pd.DataFrame({"cell": np.repeat(names, 10), "seed": np.tile(np.arange(10), 2000)})
    frame["baseline"] = np.repeat(names[np.arange(2000) // 20 * 20], 10)
    frame = frame.assign(group=frame["baseline"], score=np.random.default_rng(0).beta(20, 2, len(frame)))
    assert len(differences(frame)) == 1900
    took = times_of(lambda: differences(frame), lambda: [cell.mean() for _, cell in frame.groupby("cell")["score"]])
    assert took < 3
