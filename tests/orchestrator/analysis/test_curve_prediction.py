"""A predictor is judged by how it ranks depths and by the depth that it names on corpora it has not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from orchestrator.analysis.curve_prediction import (
    predicted_depths,
    prediction_summary,
    predictor_curves,
    rank_correlations,
)
from orchestrator.analysis.layer_curves import COLUMNS, NOTHING

RISING = [0.0, 0.001, 0.002, 0.02, 0.03]


def curve(
    corpus: str,
    loss: Sequence[float],
    *,
    probe: Sequence[float] | None = None,
    drift: Sequence[float] | None = None,
    cka: Sequence[float] | None = None,
) -> pd.DataFrame:
    """A setting of an encoder with as many depths as losses, measured or not as given."""
    n = len(loss)
    unknown = [np.nan] * n
    rows = pd.DataFrame(
        {"depth": range(n), "loss": loss, "probe": probe or unknown, "drift": drift or unknown, "cka": cka or unknown}
    )
    fixed = {"probe_id": corpus, "baseline": corpus, "setup": "", "corpus": corpus, "train_size": 200}
    return rows.assign(n_layers=n - 1, **fixed).reindex(columns=COLUMNS)


def test_depth_ranks_a_rising_curve_and_tells_nothing_of_its_steps() -> None:
    found = rank_correlations(predictor_curves(curve("a", RISING)))
    assert found["predictor"].tolist() == ["depth"]
    assert (found["over_depths"][0], found["over_steps"][0]) == (pytest.approx(1.0), 0.0)


def test_a_probe_that_falls_where_losses_rise_ranks_the_steps() -> None:
    made = predictor_curves(curve("a", [0.0, 0.0, 0.01, 0.03, 0.06], probe=[0.5, 0.8, 0.78, 0.74, 0.68]))
    assert made["p_probe"].tolist() == pytest.approx([0.0, 0.0, 0.02, 0.06, 0.12])
    found = rank_correlations(made).set_index("predictor")
    assert found.loc["probe", ["over_depths", "over_steps"]].tolist() == pytest.approx([1.0, 1.0])


def test_drift_is_the_share_of_all_movement_and_cka_what_the_output_changed() -> None:
    cka = [np.nan, 0.9, 0.8, 0.6, 0.2]
    made = predictor_curves(curve("a", RISING, drift=[0.1, 0.1, 0.2, 0.2, 0.4], cka=cka))
    assert made["p_drift"].tolist() == pytest.approx([0.1, 0.2, 0.4, 0.6, 1.0])
    assert made["p_cka"].tolist() == pytest.approx([0.0, 0.1, 0.2, 0.4, 0.8])


def test_a_depth_is_named_with_the_threshold_of_the_other_corpora() -> None:
    """Losses exceed 1 point where the drift exceeds a half, in every corpus at another depth."""
    curves = pd.concat(
        [
            curve("a", [0, 0, 0, 0.02, 0.03], drift=[0.1, 0.1, 0.2, 0.3, 0.3]),
            curve("b", [0, 0.02, 0.02, 0.03, 0.03], drift=[0.3, 0.3, 0.2, 0.1, 0.1]),
            curve("c", [0, 0, 0.02, 0.03, 0.03], drift=[0.1, 0.25, 0.35, 0.2, 0.1]),
        ]
    )
    found = predicted_depths(predictor_curves(curves), 0.01).set_index(["predictor", "corpus"])
    assert found.loc["drift", "measured"].to_dict() == {"a": 2, "b": 0, "c": 1}
    assert found.loc["drift", "error"].to_dict() == {"a": 0, "b": 0, "c": 0}
    assert found.loc["depth", "error"].sum() > 0


def test_where_every_freeze_loses_too_much_the_right_answer_is_nothing() -> None:
    curves = pd.concat([curve(name, [0.1, 0.1, 0.1, 0.2]) for name in "ab"])
    found = predicted_depths(predictor_curves(curves), 0.01)
    assert found[["measured", "predicted", "error"]].drop_duplicates().to_numpy().tolist() == [[NOTHING, NOTHING, 0]]


def test_one_corpus_names_no_depth_and_few_depths_have_no_correlation() -> None:
    assert not len(predicted_depths(predictor_curves(curve("a", RISING)), 0.01))
    few = curve("a", [0.0, np.nan, 0.01, np.nan, 0.02])
    assert not len(rank_correlations(predictor_curves(few)))


def test_a_summary_is_over_corpora_with_an_interval_from_three_on() -> None:
    drifts = {"a": [0.1, 0.1, 0.2, 0.3, 0.3], "b": [0.3, 0.3, 0.2, 0.1, 0.1], "c": [0.2, 0.2, 0.2, 0.2, 0.2]}
    three = pd.concat([curve(name, RISING, drift=drift) for name, drift in drifts.items()])
    found = prediction_summary(three, 0.01).set_index("predictor")
    assert found.index.tolist() == ["depth", "drift"]
    row = found.loc["drift"]
    assert (row["corpora"], row["settings"]) == (3, 3)
    assert -1 <= row["over_steps_low"] < row["over_steps"] < row["over_steps_high"] <= 1
    assert (found["error_low"] >= 0).all()
    again = pd.concat([three, three.assign(probe_id=three["probe_id"] + "2", train_size=400)])
    assert prediction_summary(again, 0.01).set_index("predictor").loc["drift", "over_steps"] == row["over_steps"]
    two = three[three["corpus"] != "c"]
    assert np.isnan(prediction_summary(two, 0.01)["error_low"]).all()
    assert not len(prediction_summary(two.iloc[:0], 0.01))
