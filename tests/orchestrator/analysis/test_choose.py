"""Recommendations: the promised error rate by simulation, the order of tests, what is said where nothing is sure."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from orchestrator.analysis.choose import fixed_sequence, recommend
from orchestrator.analysis.moments import guarded_above
from orchestrator.analysis.paired import differences
from orchestrator.analysis.wording import parts
from tests.orchestrator.analysis.frames import SIZE, sweep, trials
from tests.orchestrator.analysis.samples import Draw, rows_moments

SWEEPS = 120  # of a rate of 5 %: standard error 2 %; 2,000 sweeps gave 0.7 %
TOLERANCE = 0.01


def test_at_most_5_percent_of_sweeps_recommend_a_cell_that_loses_too_much() -> None:
    """Three cells stand just beyond the tolerance, where errors are likeliest, one of each chain."""
    rng = np.random.default_rng(0)
    losses = {"first 1": 0.0, "first 2": 0.0101, "first 4": 0.02, "last 1": 0.0101, "first 2+E": 0.0101}
    harmless = {None, "first 1"}
    wrong = [recommend(sweep(rng, losses, 5), TOLERANCE).cell not in harmless for _ in range(SWEEPS)]
    assert np.mean(wrong) <= 0.05


def test_at_most_5_percent_of_sweeps_with_skewed_scores_do() -> None:
    """Thousands of sweeps as cells of one frame, by the rule that `recommend` follows within one chain (see below)."""
    rng = np.random.default_rng(1)
    scores = np.vstack([rng.beta(200, 20, (4000, 5)), rng.beta(20, 2, (4000, 5)) - 0.0101])  # skewness -1.1
    names = np.array([f"none {i}" for i in range(4000)] + [f"first {i}" for i in range(4000)])
    frame = pd.DataFrame({"cell": np.repeat(names, 5), "seed": np.tile(np.arange(5), 8000), "score": scores.ravel()})
    frame = frame.assign(baseline=np.repeat(np.tile(names[:4000], 2), 5), group="tagging")
    assert (differences(frame)["low_guarded"] >= -TOLERANCE).mean() <= 0.05


@pytest.mark.parametrize(
    ("name", "draw", "bound"),
    [
        ("normal", lambda rng, shape: rng.standard_normal(shape), 0.025),
        ("skewness -1", lambda rng, shape: 4 - rng.gamma(4, 1, shape), 0.05),
        ("skewness -1.4", lambda rng, shape: rng.beta(9, 1, shape) - rng.beta(90, 10, shape), 0.052),
        ("skewness -2, more than promised", lambda rng, shape: 1 - rng.exponential(1, shape), 0.063),
    ],
)
def test_one_cell_of_five_pairs_passes_wrongly_this_often(name: str, draw: Draw, bound: float) -> None:
    samples = draw(np.random.default_rng(2), (40_000, 5))
    assert (guarded_above(rows_moments(samples), 0.0) <= 0.05 / 2).mean() <= bound, name


def test_most_sweeps_find_the_largest_harmless_saving() -> None:
    rng = np.random.default_rng(3)
    losses = {"first 1": 0.0, "first 2": 0.0, "first 4": 0.002, "first 6": 0.03}
    found = [recommend(sweep(rng, losses, 8, spread=0.004), TOLERANCE).cell for _ in range(30)]
    assert found.count("first 4") >= 27


def test_the_answer_is_a_sentence_with_figures() -> None:
    found = recommend(
        sweep(np.random.default_rng(0), {"first 2": 0, "first 4": 0.004}, 8, 0.003), TOLERANCE, "training_cost_s"
    )
    assert found.sentence == (
        "Freeze the first 4 of 6 layers: it saves 64 % of the training time and loses 0.3 points on average over "
        "8 seeds; a loss of more than 1 point is ruled out (error rate 5 %)."
    )
    assert (found.decided, found.cell, found.runner_up, found.further_seeds) == (True, "first 4", "first 2", 0)


def test_a_larger_saving_still_open_is_told_beside_the_answer() -> None:
    rng = np.random.default_rng(5)
    frame = sweep(rng, {"first 2": 0, "first 4": 0.007}, 6, 0.004)
    found = recommend(frame, TOLERANCE)
    assert found.cell == "first 2"
    assert found.further_seeds is not None
    assert found.further_seeds > 0
    assert f"About {found.further_seeds} more seeds may show the same for the first 4 of 6 layers" in found.sentence


def test_too_few_seeds_are_told_with_how_many_more() -> None:
    found = recommend(sweep(np.random.default_rng(1), {"first 2": 0.0}, 3, 0.02), 0.02)
    assert not found.decided
    assert (found.cell, found.runner_up) == (None, "first 2")
    assert found.sentence.startswith("Not decidable with 3 seeds: no setting is shown to lose at most 2 points. About ")
    assert found.further_seeds == found.candidates["further_seeds"].iloc[0] > 0


def test_further_seeds_do_decide_in_most_sweeps() -> None:
    """Seeds said at the true effect: 80 % of sweeps with so many decide, a bit fewer by the guard."""
    rng = np.random.default_rng(6)
    decided = [recommend(sweep(rng, {"first 2": 0.0}, 11, 0.01), TOLERANCE).decided for _ in range(50)]
    assert 0.7 <= np.mean(decided) <= 0.97  # an effect of 1 takes 10 seeds at 2.5 % one-sided


def test_where_all_lose_too_much_nothing_is_frozen() -> None:
    found = recommend(sweep(np.random.default_rng(0), {"first 2": 0.05, "first 4": 0.09}, 5), TOLERANCE)
    assert found.sentence.startswith("Freeze nothing: every setting that saves loses more than 1 point on average")
    assert (found.decided, found.further_seeds) == (False, None)


def test_a_cell_behind_one_that_fails_is_not_recommended() -> None:
    frame = sweep(np.random.default_rng(0), {"first 1": 0.05, "first 2": 0.0}, 8, 0.002)
    found = recommend(frame, TOLERANCE)
    assert not found.decided
    assert "suggests chance" in found.sentence
    assert found.candidates.set_index("cell").loc["first 2", "level"] is not None
    assert np.isnan(found.candidates.set_index("cell").loc["first 2", "level"])


def test_a_budget_leaves_out_what_costs_more() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0, "first 4": 0}, 8, 0.002)
    within = recommend(frame, TOLERANCE, budget={"training_cost_s": 25.0})
    assert within.cell == "first 4"
    assert within.candidates["in_budget"].tolist() == [True, False]
    none = recommend(frame, TOLERANCE, budget={"trainable_params": 1.0})
    assert none.sentence == "Not decidable: no setting within the budget is known to save trainable parameters."


def test_every_row_counts_where_no_state_is_told() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0, "first 4": 0}, 8, 0.002).drop(columns="state")
    assert recommend(frame, TOLERANCE, budget={"trainable_params": 600.0}).cell == "first 4"


def test_a_saving_of_one_pair_is_told_without_an_interval() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0}, 8, 0.002)
    frame.loc[frame["seed"] > 0, "training_cost_s"] = np.nan
    assert "it saves 31 % of the training time" in recommend(frame, TOLERANCE, "training_cost_s").sentence


def test_a_saving_of_time_is_told_with_its_interval() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0}, 8, 0.002)
    frame["training_cost_s"] *= np.random.default_rng(1).lognormal(0, 0.1, len(frame))
    assert re.search(r"it saves \d+ % \(\d+ to \d+ %\) of", recommend(frame, TOLERANCE, "training_cost_s").sentence)


def test_broken_trials_of_the_recommended_cell_are_told() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0}, 8, 0.002)
    frame.loc[(frame["cell"] == "first 2") & (frame["seed"] < 2), "state"] = ["diverged", "failed"]
    found = recommend(frame, TOLERANCE)
    assert found.sentence.endswith("2 trials of this setting failed and have no score.")
    assert found.candidates["broken"].tolist() == [2]


def test_times_of_two_devices_recommend_nothing() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0}, 8, 0.002)
    frame.loc[frame["cell"] == "first 2", "device"] = "gpu"
    assert recommend(frame, TOLERANCE, "training_cost_s").sentence.endswith(
        "known to save training time (different devices)."
    )
    assert recommend(frame, TOLERANCE, "trainable_params").decided


def test_equal_differences_are_no_certainty() -> None:
    found = recommend(trials({"none": [0.9] * 5, "first 2": [0.9] * 5}), TOLERANCE)
    assert not found.decided
    assert "the spread over seeds is unknown" in found.sentence


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (trials({}), "Nothing to choose from: no setting freezes anything."),
        (trials({"none": [0.9]}), "Nothing to choose from: no setting freezes anything."),
        (trials({"first 1": [0.9]}), "Not decidable: no completed trial has a completed baseline of the same seed."),
        (trials({"none": [0.9], "first 1": [0.9]}), "Not decidable with 1 seed: an interval needs two pairs or more."),
        (
            trials({"none": [0.9], "first 1": [0.9]}, state="failed"),
            "Not decidable: no completed trial has a completed baseline of the same seed.",
        ),
    ],
)
def test_sweeps_without_pairs_are_told_so(frame: pd.DataFrame, sentence: str) -> None:
    found = recommend(frame, TOLERANCE)
    assert (found.decided, found.sentence) == (False, sentence)


def test_without_the_number_of_layers_the_sentence_is_shorter() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0}, 8, 0.002).drop(columns="n_layers")
    assert recommend(frame, TOLERANCE).sentence.startswith("Freeze the first 2 layers: it saves 22 %")


def test_one_chain_passes_where_the_guarded_interval_does() -> None:
    rng = np.random.default_rng(7)
    for _ in range(12):
        frame = sweep(rng, {"first 2": 0.005}, 5, 0.004)
        assert recommend(frame, TOLERANCE).decided == (differences(frame)["low_guarded"].iloc[0] >= -TOLERANCE)


def test_chains_share_the_error_and_hand_it_on() -> None:
    p = np.array([0.001, 0.012, 0.02, 0.9, np.nan])
    found = fixed_sequence(p, np.array([0, 0, 1, 1, 2]), np.arange(5), 0.06)
    # A third of the half each; no chain is through, so none gets more.
    assert found.shown.tolist() == [True, False, False, False, False]
    assert found.level.tolist() == pytest.approx([0.01, 0.01, 0.01, np.nan, 0.01], nan_ok=True)
    handed = fixed_sequence(p[:4], np.array([0, 1, 1, 1]), np.arange(4), 0.06)
    assert handed.shown.tolist() == [True, True, True, False]  # 0.02 <= 0.03, as chain 0 was through
    assert handed.level.tolist() == pytest.approx([0.015, 0.015, 0.03, 0.03])


def test_several_baselines_or_groups_are_refused() -> None:
    frame = trials({"none": [0.9], "first 1": [0.9]})
    for column in ("baseline", "group"):
        with pytest.raises(ValueError, match=f"2 values of {column}"):
            recommend(pd.concat([frame, frame.assign(**{column: "other", "seed": 9})]), TOLERANCE)


@pytest.mark.parametrize(("tolerance", "error"), [(-0.1, 0.05), (float("nan"), 0.05), (0.1, 0.0), (0.1, 0.5)])
def test_impossible_figures_are_refused(tolerance: float, error: float) -> None:
    with pytest.raises(ValueError, match="must be at least 0"):
        recommend(trials({"none": [0.9]}), tolerance, error=error)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("first 1", "the first 1 of 6 layers"),
        ("last 4+E", "the last 4 of 6 layers and the embeddings"),
        ("all+E", "all layers and the embeddings"),
        ("layers 0,3", "layers 0,3"),
    ],
)
def test_freeze_labels_are_put_into_words(label: str, words: str) -> None:
    assert parts(label, SIZE) == words


def test_one_layer_is_singular() -> None:
    assert parts("first 1") == "the first 1 layer"


def test_a_mean_loss_of_exactly_the_tolerance_is_within_it() -> None:
    """1 - 0.99 is above 0.01 in floating point, 0.01 in points."""
    frame = trials({"none": [1.0, 0.999, 1.0, 0.999], "first 2": [0.99, 0.989, 0.9901, 0.9889]})
    assert "Freeze nothing" not in recommend(frame, TOLERANCE).sentence


def test_settings_that_take_longer_or_exceed_the_budget_are_named() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.05, "first 4": 0.0, "last 2": 0.0}, 8, 0.002)
    frame.loc[frame["cell"] == "first 4", "training_cost_s"] = 70.0
    found = recommend(frame, TOLERANCE, "training_cost_s", budget={"train_s": 1000.0})
    assert "Not considered: the first 4 layers (15 % more training time)." in found.sentence
    tight = recommend(frame, TOLERANCE, budget={"trainable_params": 600.0}).sentence
    assert "the first 2 layers (over the budget)" in tight
