"""What layers know, and how far they moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from orchestrator.analysis.trial_frame import trial_frame
from orchestrator.extras.layer_probing.layer_curves import COLUMNS, findings, layer_curves, probe_id
from orchestrator.store.schema import DRIFTS, PROBES
from tests.builders import make_spec
from tests.examples import each
from tests.orchestrator.analysis.frames import row_of
from trials.spec import TrialSpec

NO_PROBES, NO_DRIFTS = (schema.empty_table().to_pandas() for schema in (PROBES, DRIFTS))


def spec_of(depth: int | None, seed: int = 0, **changes: Any) -> TrialSpec:
    """A baseline for None, else the embeddings and the first `depth` layers frozen."""
    freeze = {} if depth is None else {"strategy": "first_k", "layers": tuple(range(depth)), "embeddings": True}
    return make_spec(freeze=freeze, seed=seed, **changes)


def curves(
    specs: list[TrialSpec], probes: pd.DataFrame = NO_PROBES, drifts: pd.DataFrame = NO_DRIFTS, **scores: float
) -> pd.DataFrame:
    """`scores` by freeze label; trials of other freezes have not run."""
    ran = [spec for spec in specs if spec.freeze.label in scores]
    rows = [row_of(spec, scores[spec.freeze.label] + spec.seed / 1000) for spec in ran]
    return layer_curves(trial_frame(specs, rows), {s.cell_id: s for s in specs}, probes, drifts)


def probe_rows(spec: TrialSpec, scores: dict[int, float], seeds: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for depth, score in scores.items():
        for seed in range(seeds):
            values = rng.normal(0, 0.1, 40)
            values += score - values.mean()
            rows.append(
                {"probe_id": probe_id(spec), "subset_seed": seed, "depth": depth, "score": score, "control_score": 0.25,
                 "selectivity": score - 0.25, "contributions": values, "selectivity_contributions": values - 0.25}
            )  # fmt: skip
    return pd.DataFrame(rows)


def test_there_is_a_row_for_every_depth_whatever_has_run() -> None:
    found = curves([spec_of(None), spec_of(2)])
    assert found.columns.tolist() == COLUMNS
    assert found["depth"].tolist() == list(range(7))
    assert found[["probe", "drift", "loss"]].isna().all(axis=None)
    assert (found[["n_probes", "n_drifts", "n_pairs"]] == 0).all(axis=None)
    assert not len(layer_curves(pd.DataFrame(), {}, NO_PROBES, NO_DRIFTS))


def test_the_loss_of_a_depth_is_that_of_freezing_up_to_it() -> None:
    specs = [spec_of(depth, seed) for depth in (None, 0, 2) for seed in range(3)]
    thawing = [spec_of(6, seed, thaw_every=1) for seed in range(3)]  # is no freeze of a depth
    scores = {"none": 0.9, "embeddings": 0.89, "first 2+E": 0.8, "first 6+E": 0.7}
    found = curves([*specs, *thawing], **scores).set_index("depth")
    assert found["loss"].dropna().to_dict() == pytest.approx({0: 0.01, 2: 0.1})
    assert found["n_pairs"].tolist() == [3, 0, 3, 0, 0, 0, 0]


def test_freezes_that_train_the_embeddings_count_where_no_other_freezes_them() -> None:
    trained = make_spec(freeze={"strategy": "first_k", "layers": (0, 1), "embeddings": False})
    scores = {"none": 0.9, "first 2": 0.8, "first 4+E": 0.7}
    alone = curves([spec_of(None), trained], **scores).set_index("depth")
    assert alone["loss"].dropna().to_dict() == pytest.approx({2: 0.1})
    both = curves([spec_of(None), trained, spec_of(4)], **scores).set_index("depth")
    assert both["loss"].dropna().to_dict() == pytest.approx({4: 0.2})


def test_a_probe_has_an_interval_over_subsets_and_sentences_and_counts_for_its_train_size() -> None:
    small, large = spec_of(None), spec_of(None, train_size=400)
    found = curves([small, large], probe_rows(small, {0: 0.5, 1: 0.75}))
    at = found[found["train_size"] == 200].set_index("depth")
    assert at.loc[1, ["probe", "control", "selectivity"]].tolist() == pytest.approx([0.75, 0.25, 0.5])
    assert 0.7 < at.loc[1, "probe_low"] < 0.75 < at.loc[1, "probe_high"] < 0.8
    assert at["n_probes"].tolist() == [3, 3, 0, 0, 0, 0, 0]
    assert found.groupby("train_size")["n_probes"].sum().to_dict() == {200: 6, 400: 0}


def test_drift_is_that_of_the_baseline_over_its_seeds() -> None:
    specs = [spec_of(depth, seed) for depth in (None, 2) for seed in range(2)]
    rows = [
        {"trial_id": s.trial_id, "depth": 1, "epoch": 3.0, "weight_change": change, "cka": 0.5}
        for s, change in zip(specs, [0.1, 0.3, 9.0, 9.0], strict=True)
    ]
    found = curves(specs, drifts=pd.DataFrame(rows), **{"none": 0.9, "first 2+E": 0.8}).set_index("depth")
    assert found.loc[1, ["drift", "cka", "n_drifts"]].tolist() == pytest.approx([0.2, 0.5, 2])
    assert found.loc[1, "drift_low"] < 0.2 < found.loc[1, "drift_high"]
    assert pd.isna(found.loc[2, "drift"])


@each(
    "losses, words",
    [
        ([0.001, 0.002, 0.05], "Loses ≤ 1 point up to layer 1, 5.0 at layer 2"),
        ([0.001, np.nan, 0.01], "Loses ≤ 1 point up to layer 2"),
        ([0.02, 0.0, 0.0], "Loses > 1 point: 2.0 at the embeddings"),
        ([np.nan] * 3, "Loss unknown: no freeze has completed"),
    ],
)
def test_what_the_curves_show_is_said_in_words(losses: list[float], words: str) -> None:
    at = pd.DataFrame({"depth": range(3), "probe": [0.5, 0.7, 0.6], "drift": [0.3, 0.1, 0.2], "loss": losses})
    assert list(findings(at, 0.01).values()) == [
        "Knows most after layer 1: 70.0 %",
        "Training moves the embeddings most: 30.0 %",
        words,
    ]
    assert findings(at.assign(drift=np.nan), 0.01)["drift"] == "Movement unknown: no stored weights"
