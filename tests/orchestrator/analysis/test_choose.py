"""Recommendations: the promised error rate by simulation, the order of tests, what is said where nothing is sure."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from orchestrator.analysis.choose import recommend

from orchestrator.analysis.wording import parts, share_text
from tests.orchestrator.analysis.frames import SIZE, sweep, trials, with_dev_sentences

SWEEPS = 60  # of a rate of 5 %: standard error 3 %
TOLERANCE = 0.01


def test_at_most_5_percent_of_sweeps_recommend_a_cell_that_loses_too_much() -> None:
    """Three cells stand just beyond the tolerance, where errors are likeliest, one of each chain."""
    rng = np.random.default_rng(0)
    losses = {"first 1": 0.0, "first 2": 0.0101, "first 4": 0.02, "last 1": 0.0101, "first 2+E": 0.0101}
    harmless = {None, "first 1"}
    wrong = [recommend(sweep(rng, losses, 5), TOLERANCE).cell not in harmless for _ in range(SWEEPS)]
    assert np.mean(wrong) <= 0.05


def test_most_sweeps_find_the_largest_harmless_saving() -> None:
    rng = np.random.default_rng(3)
    losses = {"first 1": 0.0, "first 2": 0.0, "first 4": 0.001, "first 6": 0.03}
    found = [recommend(sweep(rng, losses, 10, spread=0.004), TOLERANCE).cell for _ in range(30)]
    assert found.count("first 4") >= 27


def test_the_answer_is_a_sentence_with_figures() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0, "first 4": 0.001}, 10, 0.003).assign(collapsed=0.0)
    found = recommend(frame, TOLERANCE, "training_cost_s")
    assert found.sentence == (
        "Freeze the first 4 of 6 layers: it loses 0.10 points (loss between -0.07 and 0.36; median 0.11; 10 seeds, on "
        "this dev set), within 1 point, and saves 64 % of the training time. It holds for runs that do not collapse "
        "(0 of 10 runs collapsed; up to 26 % could, 95 % bound)."
    )
    assert (found.outcome, found.cell, found.runner_up) == ("freeze", "first 4", "first 2")
    assert (found.further_seeds, found.further_sentences) == (0, 0)


def test_an_answer_over_sentences_counts_them() -> None:
    rng = np.random.default_rng(0)
    frame = with_dev_sentences(sweep(rng, {"first 2": 0.001}, 5, 0.001), rng, 2000)
    found = recommend(frame, TOLERANCE)
    assert "5 seeds, 2,000 dev sentences" in found.sentence
    assert found.candidates["n_sentences"].tolist() == [2000]


def test_a_setting_that_waits_for_one_before_it_is_named_with_it_and_has_no_interval_yet() -> None:
    frame = sweep(np.random.default_rng(0), {"first 1": 0.005, "first 2": 0.001}, 3, 0.004)
    found = recommend(frame, TOLERANCE)
    assert (found.outcome, found.runner_up) == ("not decided", "first 2")
    assert re.search(r"first 2 .* so far \(tested after the first 1 of 6 layers, still undecided\); ", found.sentence)
    assert "loss between" not in found.sentence


def test_a_larger_saving_still_open_is_named_beside_the_answer() -> None:
    frame = sweep(np.random.default_rng(5), {"first 2": 0, "first 4": 0.007}, 8, 0.004)
    found = recommend(frame, TOLERANCE)
    assert found.cell == "first 2"
    assert found.further_seeds
    assert f"About {found.further_seeds} more seeds may allow the first 4 of 6 layers, which" in found.sentence


def test_too_few_seeds_say_how_many_more() -> None:
    found = recommend(sweep(np.random.default_rng(1), {"first 2": 0.0}, 3, 0.02), 0.02)
    assert (found.outcome, found.cell, found.runner_up) == ("not decided", None, "first 2")
    assert found.sentence.startswith("Not decided: no setting is shown to lose at most 2 points. Freezing the first 2")
    assert found.further_seeds == found.candidates["further_seeds"].iloc[0] > 0
    assert f"about {found.further_seeds} more seeds would probably show that it is within 2 points" in found.sentence


def test_where_the_least_freeze_of_every_chain_loses_too_much_nothing_is_frozen() -> None:
    losses = {"first 2": 0.05, "first 4": 0.09, "last 2": 0.06}
    found = recommend(sweep(np.random.default_rng(0), losses, 8, 0.004), TOLERANCE)
    assert (found.outcome, found.cell, found.further_seeds) == ("freeze nothing", None, 0)
    assert found.sentence.startswith(
        "Freeze nothing: the first 2 of 6 layers is shown to cost more than 1 point: it loses 5.35 points"
    )


def test_verdicts_follow_from_the_interval_that_decides() -> None:
    rng = np.random.default_rng(7)
    for _ in range(12):
        rows = recommend(
            sweep(rng, {"first 1": 0.0, "first 2": 0.005, "first 4": 0.02}, 6, 0.004), TOLERANCE
        ).candidates
        assert (rows["shown"] == (rows["high_decides"] <= TOLERANCE)).all()
        assert rows.loc[~rows["tested"], ["low_decides", "high_decides"]].isna().all(axis=None)
        assert (rows["high_decides"].dropna() >= rows["high"][rows["tested"]]).all()


@pytest.mark.slow
def test_looking_again_after_every_seed_errs_in_at_most_5_percent_of_sweeps() -> None:
    rng, wrong = np.random.default_rng(8), 0
    for _ in range(20):
        frame = sweep(rng, {"first 2": 0.0101}, 10, 0.01)
        wrong += any(recommend(frame[frame["seed"] < n], TOLERANCE).cell is not None for n in range(3, 11))
    assert wrong <= 3  # of 20 at a rate of 5 %, more have a chance of 2 %


def test_who_fixes_fewer_seeds_beforehand_decides_with_fewer() -> None:
    frame = sweep(np.random.default_rng(9), {"first 2": 0.0}, 4, 0.003)
    assert recommend(frame, TOLERANCE).outcome == "not decided"
    assert recommend(frame, TOLERANCE, most_seeds=4).outcome == "freeze"


def test_a_pair_with_a_rare_collapse_is_left_out_and_counted() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.0}, 8, 0.002).assign(collapsed=0.0)
    bad = (frame["cell"] == "first 2") & (frame["seed"] == 3)
    frame.loc[bad, ["score", "collapsed"]] = [0.3, 1.0]
    row = recommend(frame, TOLERANCE).candidates.iloc[0]
    assert (row["n_pairs"], row["n_run"], row["collapsed"], row["shown"]) == (7, 8, 1, True)
    assert "1 of 8 runs collapsed" in recommend(frame, TOLERANCE).sentence


def test_where_no_pair_learned_anything_no_figure_is_made_up() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.0}, 8, 0.002).assign(collapsed=0.0)
    frame.loc[frame["cell"] == "none", "collapsed"] = 1.0
    found = recommend(frame, TOLERANCE)
    assert found.sentence.startswith("Not decided: in every pair of runs, one or both learned nothing. Try more train ")
    assert "nan" not in found.sentence


def test_a_setting_that_mostly_collapses_loses_what_it_loses() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.5}, 8, 0.002)
    frame = frame.assign(collapsed=(frame["cell"] == "first 2").astype(float))
    found = recommend(frame, TOLERANCE)
    assert (found.outcome, found.candidates["n_pairs"].tolist()) == ("freeze nothing", [8])


def test_a_baseline_that_collapsed_makes_no_freeze_look_good() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.02}, 8, 0.002).assign(collapsed=0.0)
    frame.loc[(frame["cell"] == "none") & (frame["seed"] < 2), ["score", "collapsed"]] = [0.3, 1.0]
    found = recommend(frame, TOLERANCE)
    assert (found.outcome, found.candidates["n_pairs"].tolist()) == ("freeze nothing", [6])


def test_a_cell_behind_one_that_fails_is_not_recommended() -> None:
    frame = sweep(np.random.default_rng(0), {"first 1": 0.05, "first 2": 0.0}, 8, 0.002)
    found = recommend(frame, TOLERANCE)
    assert found.cell is None
    assert not found.candidates.set_index("cell").loc["first 2", "tested"]


def test_a_budget_leaves_out_what_costs_more() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0, "first 4": 0}, 8, 0.002)
    within = recommend(frame, TOLERANCE, budget={"training_cost_s": 25.0})
    assert within.cell == "first 4"
    assert within.candidates["in_budget"].tolist() == [True, False]
    none = recommend(frame, TOLERANCE, budget={"trainable_params": 1.0})
    assert none.sentence == (
        "Not decided: no setting within the budget is known to save trainable parameters. Not considered: 2 settings "
        "(over the budget)."
    )


def test_every_row_counts_where_no_state_is_told() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0, "first 4": 0}, 8, 0.002).drop(columns="state")
    assert recommend(frame, TOLERANCE, budget={"trainable_params": 600.0}).cell == "first 4"


def test_a_saving_of_one_pair_is_told_without_an_interval() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0}, 8, 0.002)
    frame.loc[frame["seed"] > 0, "training_cost_s"] = np.nan
    assert "and saves 31 % of the training time" in recommend(frame, TOLERANCE, "training_cost_s").sentence


def test_a_saving_of_time_is_told_with_its_interval() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0}, 8, 0.002)
    frame["training_cost_s"] *= np.random.default_rng(1).lognormal(0, 0.1, len(frame))
    assert re.search(r"and saves \d+ % \(\d+ to \d+ %\) of", recommend(frame, TOLERANCE, "training_cost_s").sentence)


def test_broken_trials_of_the_recommended_cell_are_told() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0}, 8, 0.002)
    frame.loc[(frame["cell"] == "first 2") & (frame["seed"] < 2), "state"] = ["diverged", "failed"]
    found = recommend(frame, TOLERANCE)
    assert "; 2 runs of this setting failed." in found.sentence
    assert found.candidates["broken"].tolist() == [2]


def test_times_of_two_devices_recommend_nothing() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0}, 8, 0.002)
    frame.loc[frame["cell"] == "first 2", "device"] = "gpu"
    found = recommend(frame, TOLERANCE, "training_cost_s")
    assert "(training time not known: different devices: NVIDIA H200 and gpu)" in found.sentence
    assert recommend(frame, TOLERANCE, "trainable_params").cell == "first 2"


def test_equal_differences_are_no_certainty() -> None:
    found = recommend(trials({"none": [0.9] * 5, "first 2": [0.9] * 5}), TOLERANCE)
    assert found.outcome == "not decided"
    assert "further seeds or dev sentences are unlikely to decide it" in found.sentence


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (trials({}), "Nothing to choose from: no setting freezes anything."),
        (trials({"none": [0.9]}), "Nothing to choose from: no setting freezes anything."),
        (trials({"first 1": [0.9]}), "Not decided: the baseline (freeze: none) has no completed trial yet."),
        (trials({"none": [0.9], "first 1": [0.9]}), "Not decided with 1 seed: the first look takes 3 seeds."),
        (
            trials({"none": [0.9], "first 1": [0.9]}, state="failed"),
            "Not decided: the baseline (freeze: none) has no completed trial yet.",
        ),
    ],
)
def test_sweeps_without_pairs_are_told_so(frame: pd.DataFrame, sentence: str) -> None:
    found = recommend(frame, TOLERANCE)
    assert (found.cell, found.sentence) == (None, sentence)


def test_without_the_number_of_layers_the_sentence_is_shorter() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0}, 8, 0.002).drop(columns="n_layers")
    assert recommend(frame, TOLERANCE).sentence.startswith("Freeze the first 2 layers: it ")


def test_a_chain_that_is_through_hands_its_error_to_the_others() -> None:
    frame = sweep(np.random.default_rng(1), {"first 2": 0.0, "last 2": 0.05}, 8, 0.002)
    both = recommend(frame, TOLERANCE).candidates.set_index("cell")
    alone = recommend(frame[frame["cell"] != "first 2"], TOLERANCE).candidates.set_index("cell")
    assert both["high_decides"]["last 2"] == pytest.approx(alone["high_decides"]["last 2"])
    failing = sweep(np.random.default_rng(1), {"first 2": 0.05, "last 2": 0.05}, 8, 0.002)
    shared = recommend(failing, TOLERANCE).candidates.set_index("cell")
    assert shared["high_decides"]["last 2"] > alone["high_decides"]["last 2"]


def test_the_embeddings_alone_begin_the_chain_of_the_first_layers() -> None:
    frame = sweep(np.random.default_rng(1), {"first 0+E": 0.0, "first 4+E": 0.05, "last 2": 0.05}, 8, 0.002)
    frame = frame.assign(strategy=frame["strategy"].where(frame["cell"] != "first 0+E", "none"))
    chains = recommend(frame, TOLERANCE).candidates.set_index("cell")["chain"]
    assert chains["first 0+E"] == chains["first 4+E"] != chains["last 2"]


def test_freezing_all_layers_ends_the_chain_of_the_first() -> None:
    frame = sweep(np.random.default_rng(1), {"first 2": 0.0, "first 4": 0.05}, 8, 0.002)
    whole = frame["cell"] == "first 4"
    frame = frame.assign(strategy=frame["strategy"].where(~whole, "all_encoder"))
    assert recommend(frame, TOLERANCE).candidates["chain"].nunique() == 1


def test_a_set_of_layers_that_loses_too_much_does_not_speak_for_larger_sets_without_it() -> None:
    frame = sweep(np.random.default_rng(1), {"first 1": 0.05, "first 2": 0.0}, 8, 0.002)
    names = {"first 1": "layers 4", "first 2": "layers 0,1"}
    sets = frame.assign(strategy=frame["strategy"].mask(frame["cell"].isin(names), "layers"))
    found = recommend(sets.assign(freeze=frame["freeze"].replace(names)), TOLERANCE)
    assert (found.outcome, found.cell) == ("freeze", "first 2")
    assert recommend(frame, TOLERANCE).outcome == "freeze nothing"


def test_the_test_split_chooses_nothing() -> None:
    with pytest.raises(ValueError, match="the test split is shown once and selects nothing"):
        recommend(trials({"none": [0.9], "first 1": [0.9]}), TOLERANCE, value="test_score")


def test_several_baselines_or_groups_are_refused() -> None:
    frame = trials({"none": [0.9], "first 1": [0.9]})
    for column in ("baseline", "group"):
        with pytest.raises(ValueError, match=f"2 values of {column}"):
            recommend(pd.concat([frame, frame.assign(**{column: "other", "seed": 9})]), TOLERANCE)


@pytest.mark.parametrize(("tolerance", "error"), [(-0.1, 0.05), (float("nan"), 0.05), (0.1, 0.0), (0.1, 1.0)])
def test_impossible_figures_are_refused(tolerance: float, error: float) -> None:
    with pytest.raises(ValueError, match="must be 0 or more"):
        recommend(trials({"none": [0.9]}), tolerance, error=error)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("first 1", "the first 1 of 6 layers"),
        ("last 4+E", "the last 4 of 6 layers and the embeddings"),
        ("all+E", "all layers and the embeddings"),
        ("alternating+E", "every other layer and the embeddings"),
        ("embeddings", "the embeddings"),
        ("layers 0,3+E", "layers 1, 4 of 6 and the embeddings"),
        ("layers 4", "layer 5 of 6"),
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
    assert "Not considered: the first 4 of 6 layers (15 % more training time)." in found.sentence
    tight = recommend(frame, TOLERANCE, budget={"trainable_params": 600.0}).sentence
    assert "Not considered: 2 settings (over the budget)." in tight


def test_a_setting_with_too_few_seeds_is_named_as_incomplete() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.0, "last 2": 0.0}, 8, 0.002)
    found = recommend(frame[(frame["cell"] != "last 2") | (frame["seed"] < 2)], TOLERANCE)
    assert "Not considered: the last 2 of 6 layers (only 2 seeds)." in found.sentence


def test_settings_left_out_for_one_reason_are_counted() -> None:
    frame = sweep(np.random.default_rng(0), {"first 1": 0.0, "first 2": 0.0, "first 4": 0.0, "last 2": 0.0}, 8, 0.002)
    frame.loc[frame["cell"] == "first 4", "training_cost_s"] = 70.0
    few = (frame["cell"] == "none") | (frame["cell"] == "first 4") | (frame["seed"] < 2)
    found = recommend(frame[few], TOLERANCE, "training_cost_s")
    assert (
        "Not considered: 3 settings (too few seeds); the first 4 of 6 layers (15 % more training time)."
        in found.sentence
    )


def test_a_small_saving_has_a_decimal_and_equal_ends_are_left_out() -> None:
    row = {"saved": 0.0131, "saved_low": 0.0131, "saved_high": 0.0132}
    assert share_text(row) == "1.3 %"
    assert share_text(row | {"saved": 0.52, "saved_low": 0.49, "saved_high": 0.55}) == "52 % (49 to 55 %)"


def test_a_harmless_setting_that_saves_nothing_is_not_said_to_cost_too_much() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.0, "first 4": 0.05}, 8, 0.002)
    frame.loc[frame["cell"] == "first 2", "training_cost_s"] = 70.0
    found = recommend(frame, TOLERANCE, "training_cost_s")
    assert found.outcome == "freeze nothing"
    assert found.sentence.startswith("Freeze nothing: the first 4 of 6 layers is shown to cost more than 1 point: it")
    assert "Not considered: the first 2 of 6 layers (15 % more training time)." in found.sentence
