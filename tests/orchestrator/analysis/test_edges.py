"""Every function of trials takes every sad frame: nothing there, one trial, one seed, all failed, no baseline, NaN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from orchestrator.analysis.decide import decide, loss_table
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.describe import describe_cells
from orchestrator.analysis.rows import require
from orchestrator.analysis.savings import savings
from orchestrator.analysis.variance import anova
from orchestrator.config.quantities import amount
from tests.orchestrator.analysis.frames import trials

FRAMES = {
    "empty": trials({}),
    "one trial": trials({"none": [0.9]}),
    "one seed": trials({"none": [0.9], "first 2": [0.8]}),
    "all failed": trials({"none": [0.9, 0.8], "first 2": [0.8, 0.7]}, state="failed"),
    "no baseline": trials({"first 2": [0.8, 0.7], "first 4": [0.8, 0.9]}),
    "no scores": trials({"none": [np.nan, np.nan], "first 2": [np.nan, np.nan]}),
}
FUNCTIONS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "describe_cells": lambda frame: describe_cells(frame, ["cell"], "score"),
    "losses": loss_table,
    "decide": lambda frame: decide(frame, DecisionPlan(cost="train_s")).table,
    "what a decision takes": lambda frame: decide(frame).missing_data,
    "savings": savings,
    "anova": lambda frame: anova(frame, ["freeze", "seed"]).table,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_sad_frames_give_the_tables_of_good_ones_without_warnings_and_a_trial_twice_is_refused(
    function: Callable[[pd.DataFrame], pd.DataFrame],
) -> None:
    good = trials({"none": [0.9, 0.8, 0.7], "first 2": [0.8, 0.7, 0.69]})
    columns = function(good).columns.tolist()
    for frame in FRAMES.values():
        before = frame.copy()
        assert function(frame).columns.tolist() == columns
        pd.testing.assert_frame_equal(frame, before)  # nothing is written into what was handed in
    with pytest.raises(ValueError, match="two"):
        function(pd.concat([good, good.iloc[[4]]], ignore_index=True))


def test_a_missing_column_is_named_and_counts_agree_with_their_nouns() -> None:
    with pytest.raises(ValueError, match="the frame has no column score; it has cell, seed"):
        require(pd.DataFrame({"cell": [], "seed": []}), ["cell", "seed", "score"])
    assert [amount(n, "pair") for n in (0, 1, 2.5)] == ["0 pairs", "1 pair", "2.5 pairs"]
