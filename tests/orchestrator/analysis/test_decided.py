"""Decisions: the promised error by simulation, one interval for every verdict, and the words."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from orchestrator.analysis.decide import NOTHING_KNOWN, Decision, decide, loss_table
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.freeze_names import parts
from orchestrator.analysis.losses import collapses, excess_p
from orchestrator.analysis.setting_phrases import share_text
from orchestrator.analysis.wording import answer_words, excluded_counts
from tests.examples import examples
from tests.orchestrator.analysis.frames import SIZE, at_tolerance, freeze_of, sweep, trials, with_dev_sentences


def decided(losses: dict[str, float], n: int = 8, spread: float = 0.004, seed: int = 0, **plan: object) -> Decision:
    return decide(sweep(np.random.default_rng(seed), losses, n, spread), DecisionPlan(**plan))  # type: ignore[arg-type]


def rows(of: Decision) -> pd.DataFrame:
    return of.table.set_index("freeze")


def learned(**losses: float) -> pd.DataFrame:
    """Eight seeds of `first 2`, in which no run collapsed."""
    return sweep(np.random.default_rng(0), losses or {"first 2": 0.0}, 8, 0.002).assign(collapsed=0.0)


def test_at_most_5_percent_of_sweeps_recommend_a_setting_that_loses_too_much() -> None:
    """Four settings stand just beyond the tolerance, where errors are likeliest."""
    rng = np.random.default_rng(0)
    losses = {"first 1": 0.0, "first 2": 0.0101, "last 1": 0.0101, "last 2": 0.0101, "first 2+E": 0.0101}
    found = [decide(sweep(rng, losses, 5)).choice for _ in range(examples(600))]
    assert np.mean([row is not None and row["freeze"] != "first 1" for row in found]) <= 0.05


def answer_sentence(of: Decision) -> str:
    """The whole answer as one paragraph."""
    return answer_words(of).sentence


def test_a_recommendation_is_a_sentence_with_figures_and_its_condition() -> None:
    of = decide(learned(**{"first 2": 0.0, "first 4": 0.001}))
    assert (of.outcome, of.choice and of.choice["freeze"]) == ("freeze", "first 4")
    words = answer_words(of)
    assert words.lines[0] == "Freeze the first 4 of 6 layers, within 1 point"
    assert re.fullmatch(
        r"It loses 0\.\d\d points \(-?0\.\d\d to 0\.\d\d\) and saves 67 % of the training FLOPs; 8 seeds, on this "
        r"dev set\.",
        words.lines[1],
    )
    assert (
        words.notes[0] == "It holds for runs that do not collapse: 0 of 8 runs collapsed; up to 31 % could, 95 % bound."
    )
    assert words.notes[1].startswith("Bad runs that are rare ")
    assert all(line in words.sentence for line in words.notes)


def test_every_verdict_is_read_off_the_one_interval() -> None:
    of = decided({"first 1": -0.02, "first 2": 0.0, "first 4": 0.03})
    table = rows(of)
    assert table["difference"].tolist() == ["better", "no difference shown", "worse"]
    assert (table["qualifies"] == (table["high"] <= 1)).all()
    pd.testing.assert_series_equal(loss_table(sweep(np.random.default_rng(0), {"first 1": -0.02, "first 2": 0.0,
        "first 4": 0.03}, 8, 0.004)).set_index("cell")["high"], table["high"], check_names=False)  # fmt: skip


def test_each_trade_off_is_the_smallest_tolerance_that_buys_it_and_no_tolerance_moves_an_interval() -> None:
    of = at_tolerance(decided({"first 2": 0.005, "first 4": 0.03}), 2.0)
    assert [each.freeze.label for each in of.trade_offs] == ["first 2", "first 4"]
    for each in of.trade_offs:
        at, below = at_tolerance(of, each.tolerance), at_tolerance(of, each.tolerance - 0.01).choice
        assert at.choice is not None
        assert at.choice["freeze"] == each.freeze.label
        assert below is None or below["freeze"] != each.freeze.label
        pd.testing.assert_frame_equal(of.table[["low", "high"]], at.table[["low", "high"]])
    assert "What each tolerance buys: " in answer_sentence(of)


def test_a_saving_too_small_is_not_worth_having_and_does_not_widen_the_intervals_of_the_others() -> None:
    of = decided({"first 2": 0.0, "first 4": 0.09}, min_saving=0.4)
    assert (of.outcome, of.choice) == ("not worth it", None)
    assert answer_sentence(of).startswith(
        "Not worth it: nothing within 1 point saves more than 33 % of the training FLOPs; freezing the first 4 "
    )
    assert excluded_counts(of) == {"saves less than 40 %": 1}
    both, alone = decided({"first 2": 0.0, "first 4": 0.0}, min_saving=0.4), decided({"first 4": 0.0}, min_saving=0.4)
    assert both.tail == alone.tail == 0.05
    assert decided({"first 2": 0.0, "first 4": 0.0}).tail < 0.05


def test_a_saving_of_time_has_to_be_shown() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.0}, 8, 0.002)
    slow = (frame["seed"] % 2 == 0) == (frame["cell"] == "none")
    noisy = frame.assign(training_cost_s=np.where(slow, 90.0, 40.0) - 5.0 * (frame["cell"] != "none"))
    of = decide(noisy, DecisionPlan(cost="training_cost_s"))
    assert of.outcome == "not worth it"
    assert decide(noisy).outcome == "freeze"


def test_two_seeds_are_too_few_and_their_differences_stand_there() -> None:
    of = decide(trials({"none": [0.9, 0.9], "first 2": [0.891, 0.881]}))
    assert answer_sentence(of).startswith(
        "Not decided yet: 2 seeds are too few for an interval; differences so far 0.9, 1.9 points"
    )
    assert rows(of)["difference"].tolist() == ["too few to decide"]
    three = decide(trials({"none": [0.9, 0.9, 0.9], "first 2": [0.891, 0.881, 0.88]}))
    assert rows(three)["verdict"].tolist() == ["not decided"]


def test_the_embeddings_alone_keep_a_variance_of_their_own() -> None:
    """They vary by less than half of what layers do: neither gets a part of the other's variance."""
    frame = sweep(np.random.default_rng(0), dict.fromkeys(("first 1", "first 2", "first 4"), 0.0), 8, 0.01)
    base, one = (frame.index[frame["freeze"] == label] for label in ("none", "first 1"))
    frame.loc[one, "score"] = frame.loc[base, "score"].to_numpy() + 0.1 * (
        frame.loc[one, "score"].to_numpy() - frame.loc[base, "score"].to_numpy()
    )
    frame.loc[one, "freeze_spec"] = pd.Series([freeze_of("embeddings")] * 8, index=one, dtype=object)
    table = decide(frame).table.set_index("cell")
    width = table["high"] - table["low"]
    assert width["first 1"] < 0.2 * width["first 2"]


def test_no_verdict_follows_from_another_setting() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0.05, "first 4": 0.05}, 8, 0.002)
    of = decide(frame[(frame["cell"] != "first 4") | (frame["seed"] < 2)])
    assert rows(of)["verdict"].tolist() == ["shown to lose more", "not decided"]
    assert of.outcome == "not decided"
    assert decide(frame).outcome == "freeze nothing"
    assert "The others worth having cost more, too." in answer_sentence(decide(frame))
    frame = sweep(np.random.default_rng(0), {"first 2": 0.0, "first 4": 0.0}, 8, 0.002)
    of = decide(frame[(frame["cell"] != "first 2") | (frame["seed"] < 3)])
    assert of.choice is not None
    assert of.choice["freeze"] == "first 4"
    of = decide(sweep(np.random.default_rng(0), {"first 2": 0.05, "first 4": 0.0}, 8, 0.002))
    assert of.choice is not None
    assert of.choice["freeze"] == "first 4"


def test_an_interval_stays_within_what_the_score_can_be_and_one_of_half_of_it_says_nothing() -> None:
    wide = trials({"none": [0.9] * 5, "first 2": [0.9, 0.2, 0.9, 0.4, 0.9], "first 4": [0.2, 0.25, 0.22, 0.2, 0.24]})
    table = rows(decide(wide))
    assert table["why_none"].tolist() == [NOTHING_KNOWN, ""]
    assert np.isnan(table.loc["first 2", ["low", "high"]].astype(float)).all()
    assert answer_sentence(decide(wide[wide["cell"] != "first 4"])).startswith(f"Not decided: {NOTHING_KNOWN}; diff")
    near = rows(decide(trials({"none": [0.12, 0.1, 0.11, 0.1], "first 2": [0.0, 0.05, 0.01, 0.03]})))
    assert near["high"].iloc[0] == pytest.approx(10.75)


@pytest.mark.parametrize("n", [1, 4])
def test_a_freeze_that_collapses_is_not_recommended(n: int) -> None:
    frame = learned()
    bad = (frame["cell"] == "first 2") & (frame["seed"] < n)
    frame.loc[bad, ["score", "collapsed"]] = [0.3, 1.0]
    of = decide(frame)
    assert of.choice is None
    assert f"{n} of 8 runs collapsed" in answer_sentence(of) or of.outcome == "freeze nothing"
    assert "first 2" not in [each.freeze.label for each in at_tolerance(of, 1.0).trade_offs if each.tolerance < 5]


def test_as_many_collapses_as_the_baseline_has_bar_nothing_and_are_told() -> None:
    frame = learned()
    for cell, seed in (("none", 1), ("first 2", 5)):
        frame.loc[(frame["cell"] == cell) & (frame["seed"] == seed), ["score", "collapsed"]] = [0.3, 1.0]
    of = decide(frame)
    assert of.outcome == "freeze"
    assert "; of the baseline 1 of 8 runs; over all runs it " in answer_sentence(of)


def test_an_excess_of_collapses_is_fishers() -> None:
    own, base = collapses(np.arange(10) < 4), collapses(np.zeros(10))
    assert excess_p(own, base) == pytest.approx(0.0433, abs=1e-4)
    assert excess_p(base, own) == 1


def test_a_baseline_that_has_not_learned_or_is_near_the_constant_prediction_is_said_first_and_recommends_nothing() -> (
    None
):
    frame = learned().assign(constant_score=0.53)
    frame.loc[(frame["cell"] == "none") & (frame["seed"] < 4), ["score", "collapsed"]] = [0.53, 1.0]
    of = decide(frame)
    assert rows(of)[["low", "high"]].isna().all(axis=None)
    assert rows(of)["why_none"].tolist() == ["the baseline has not learned the task"]
    assert (of.outcome, of.choice, of.trade_offs) == ("not learned", None, ())
    assert answer_sentence(of).startswith("Not learned: the baseline has not learned the task: it scores ")
    assert "Try all of train if it had a part, then more epochs, then another learning rate." in answer_sentence(of)
    rng = np.random.default_rng(1)
    frame = trials({"none": list(0.54 + 0.02 * rng.standard_normal(6)), "first 2": [0.54] * 6})
    near = answer_sentence(decide(frame.assign(constant_score=0.53, collapsed=0.0)))
    assert re.search(r"Not learned: .* not shown to be above the 53.0 of the best constant prediction", near)
    assert decide(frame.assign(constant_score=0.30, collapsed=0.0)).baseline.has_learned


def test_sentences_of_few_documents_make_a_longer_interval_and_are_counted() -> None:
    rng = np.random.default_rng(0)
    frame = with_dev_sentences(sweep(rng, {"first 2": 0.001}, 8, 0.001), rng, 400)
    documents = np.repeat(np.arange(8), 50)
    effect = np.random.default_rng(1).standard_normal(8)[documents] * 0.05
    shifted = [
        each + (effect - effect.mean()) * (cell != "none")
        for each, cell in zip(frame["sentences"], frame["cell"], strict=True)
    ]
    frame = frame.assign(sentences=pd.Series(shifted, index=frame.index, dtype=object))
    known = frame.assign(documents=pd.Series([documents] * len(frame), index=frame.index, dtype=object))
    by_sentence, by_document = (decide(each).table.iloc[0] for each in (frame, known))
    assert by_document["loss"] == pytest.approx(by_sentence["loss"])
    assert by_document["high"] - by_document["low"] > 2 * (by_sentence["high"] - by_sentence["low"])
    assert "400 dev sentences of 8 documents" in answer_sentence(decide(known))
    two = known.assign(documents=pd.Series([documents // 4] * len(frame), index=frame.index, dtype=object))
    assert decide(two).table["why_none"].iloc[0] == "2 documents are too few for an interval"


def test_a_larger_saving_still_open_is_named_beside_the_answer() -> None:
    of = decided({"first 2": 0.0, "first 4": 0.008}, spread=0.003)
    assert of.choice is not None
    assert of.nearest is not None
    assert of.data_for_nearest("further_seeds")
    assert "may allow the first 4 of 6 layers, which would save 67 %." in answer_sentence(of)


def test_failed_runs_are_counted_and_settings_with_few_seeds_named() -> None:
    frame = sweep(np.random.default_rng(0), {"first 2": 0, "last 2": 0}, 8, 0.002)
    frame.loc[(frame["cell"] == "first 2") & (frame["seed"] < 2), "state"] = ["diverged", "failed"]
    of = decide(frame[(frame["cell"] != "last 2") | (frame["seed"] < 2)])
    assert "; 2 runs of this setting failed." in answer_sentence(of)
    assert "Not considered: the last 2 of 6 layers (only 2 seeds)." in answer_sentence(of)


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        ({}, "Not decided: no setting freezes anything, so there is nothing to choose from."),
        ({"none": [0.9]}, "Not decided: no setting freezes anything, so there is nothing to choose from."),
        ({"first 1": [0.9]}, "Not decided yet: the baseline (freeze: none) has no completed trial yet."),
        ({"none": [0.9], "first 1": [0.89]}, "Not decided yet: 1 seed is too few for an interval; differences so far "
         "1.0 points (the first 1 of 6 layers). It takes 3 seeds or more."),
    ],
)  # fmt: skip
def test_sweeps_without_an_interval_are_told_so(scores: dict[str, list[float]], sentence: str) -> None:
    assert answer_sentence(decide(trials(scores))) == sentence


def test_a_baseline_of_which_all_trials_diverged_says_so_and_what_to_try() -> None:
    frame = trials({"none": [0.1, 0.1], "first 1": [0.1, 0.1]}).assign(state="diverged")
    assert answer_sentence(decide(frame)).startswith(
        "Not decided: the trials of the baseline (freeze: none) diverged (2 of 2). Try a lower learning rate"
    )


def test_no_baseline_no_pairs_and_no_difference_are_words() -> None:
    frame = trials({"none": [0.5, 0.5], "first 1": [0.5, 0.5], "first 2": [0.6, 0.6]})
    lone = trials({"first 4": [0.5]}).assign(baseline="gone", cell="lone")
    late = trials({"first 6": [0.5]}).assign(seed=9)
    found = loss_table(pd.concat([frame, lone, late], ignore_index=True)).set_index("cell")
    assert found["why_none"].to_dict() == {
        "first 1": "no pair differs",
        "first 2": "all 2 pairs differ by the same",
        "first 6": "no pairs",
        "lone": "no baseline",
    }
    assert np.isnan(found[["low", "high"]].to_numpy(dtype=float)).all()


def test_the_test_split_several_baselines_and_several_groups_are_refused() -> None:
    frame = trials({"none": [0.9], "first 1": [0.9]})
    with pytest.raises(ValueError, match="the test split is shown once and selects nothing"):
        decide(frame, value="test_score")
    for column in ("baseline", "group"):
        with pytest.raises(ValueError, match=f"2 values of {column}"):
            decide(pd.concat([frame, frame.assign(**{column: "other", "seed": 9})]))


def test_a_plan_is_stored_without_its_defaults_and_read_again_and_an_impossible_one_refused() -> None:
    plan = DecisionPlan(tolerance=0.5, cost="training_cost_s")
    assert plan.as_json() == {"tolerance": 0.5, "cost": "training_cost_s"}
    assert DecisionPlan.of_json(plan.as_json() | {"later": 1}) == plan
    assert DecisionPlan().as_json() == {}
    for key, value in (
        ("tolerance", -0.1),
        ("tolerance", np.nan),
        ("error", 0.0),
        ("min_saving", 1.0),
        ("most_seeds", 1),
    ):
        with pytest.raises(ValueError, match="must be"):
            DecisionPlan(**{key: value})  # type: ignore[arg-type]


def test_freeze_labels_and_savings_are_put_into_words() -> None:
    words = {
        "first 1": "the first 1 of 6 layers",
        "all+E": "all 6 layers and the embeddings",
        "first 6": "all 6 layers",
        "alternating+E": "every other layer and the embeddings",
        "embeddings": "the embeddings",
        "layers 0,3+E": "layers 1, 4 of 6 and the embeddings",
    }
    assert {label: parts(freeze_of(label), SIZE) for label in words} == words
    row = {"saved": 0.0131, "saved_low": 0.0131, "saved_high": 0.0132}
    assert share_text(row) == "1.3 %"
    assert share_text(row | {"saved": 0.52, "saved_low": 0.49, "saved_high": 0.55}) == "52 % (49 to 55 %)"


@pytest.mark.parametrize(
    ("n", "told"),
    [
        (40, "40 sentences resolves 6.9 points; about 300 would do: there a loss of 1 point would be"),
        (None, "the scores of this dev set are too coarse for one"),
    ],
)
def test_where_all_seeds_are_equal_the_sentence_says_what_dev_resolves(n: int | None, told: str) -> None:
    frame = trials({"none": [1.0] * 3, "first 2": [1.0] * 3, "first 4": [1.0] * 3, "first 6": [0.5, 0.52, 0.51]})
    if n is not None:
        frame["sentences"] = pd.Series([np.full(n, score) for score in frame["score"]], dtype=object)
    sentence = answer_sentence(of := decide(frame))
    assert (of.data_for_nearest("further_seeds"), of.subject and of.subject["freeze"]) == (None, "first 4")
    assert sentence.startswith("Not decided: no difference seen in 3 seeds (the first 4 of 6 layers); ")
    assert told in sentence
    assert "-0.0" not in sentence
