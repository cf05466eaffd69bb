"""Convergence: first evaluation at a share of the best, the best of n trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from orchestrator.analysis.convergence import baseline_best, epochs_to
from tests.orchestrator.analysis.frames import trials


def curves(scores: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Scores at epochs 1, 2, ... (steps of ten) by trial id `<cell>/<seed>`."""
    columns = ["trial_id", "cell", "seed", "step", "epoch", "score"]
    rows = [
        (name, name.split("/")[0], int(name.split("/")[1]), 10 * epoch, float(epoch), score)
        for name, found in scores.items()
        for epoch, score in enumerate(found, start=1)
    ]
    return pd.DataFrame(rows, columns=columns)


def test_a_trial_reaches_a_share_of_its_own_best() -> None:
    found = epochs_to(curves({"none/0": [0.5, 0.86, 0.8, 0.9], "none/1": [0.9]}), 0.95)
    assert found["epoch"].tolist() == [2, 1]  # 0.855 of 0.9
    assert found["step"].tolist() == [20, 10]
    assert found["last_epoch"].tolist() == [4, 1]
    assert found["target"].tolist() == pytest.approx([0.855, 0.855])


def test_the_best_is_reached_despite_rounding() -> None:
    assert epochs_to(curves({"none/0": [0.7, 0.7]}), 1.0)["epoch"].tolist() == [1]


def test_a_trial_may_never_reach_the_baselines_best() -> None:
    epochs = curves({"none/0": [0.5, 0.9], "first 2/0": [0.6, 0.7], "first 4/0": [0.86, 0.85], "first 4/1": [0.9]})
    frame = trials({"none": [0.9], "first 2": [0.7], "first 4": [0.86, 0.9]})
    best = baseline_best(epochs, frame)
    assert best.to_dict() == pytest.approx(
        {name: 0.9 for name in best.index if name != "first 4/1"} | {"first 4/1": np.nan}, nan_ok=True
    )
    found = epochs_to(epochs, 0.95, best)
    assert found["epoch"].tolist() == pytest.approx([2, np.nan, 1, np.nan], nan_ok=True)
    assert found["reached"].tolist() == [True, False, True, False]


def test_a_baseline_that_failed_or_came_twice_is_no_reference() -> None:
    epochs, frame = curves({"none/0": [0.9], "first 2/0": [0.8]}), trials({"none": [0.9], "first 2": [0.8]})
    assert baseline_best(epochs, frame.assign(state="diverged")).isna().all()
    with pytest.raises(ValueError, match="two completed trials of one seed"):
        baseline_best(epochs, pd.concat([frame, frame.iloc[[0]]]))


def test_a_share_of_a_best_that_is_not_positive_says_nothing() -> None:
    found = epochs_to(curves({"none/0": [-0.5, -0.1], "none/1": [0.0, 0.0]}))
    assert found["reached"].tolist() == [False, False]
    assert found["epoch"].isna().all()


def test_scores_that_are_no_numbers_are_passed_over() -> None:
    found = epochs_to(curves({"none/0": [np.nan, 0.8], "none/1": [np.nan]}))
    assert found[["trial_id", "epoch"]].to_numpy().tolist() == [["none/0", 2.0]]


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_impossible_shares_are_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        epochs_to(curves({}), share)


def test_two_evaluations_at_one_place_are_refused() -> None:
    epochs = curves({"none/0": [0.5]})
    with pytest.raises(ValueError, match="none/0 has two evaluations at step 10"):
        epochs_to(pd.concat([epochs, epochs]))
