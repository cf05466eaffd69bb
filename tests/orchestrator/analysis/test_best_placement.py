"""The best set of a budget carries the loss that its selection did not see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from orchestrator.analysis.best_placement import best_placements
from orchestrator.analysis.trial_frame import trial_frame, with_sentences
from tests.builders import make_spec

N_SENTENCES = 60
PARAMS = 1000.0  # of the whole model; a layer has 100


def frame(losses: Mapping[tuple[int, ...], float], *, seeds: int = 4, noise: float = 0.0) -> pd.DataFrame:
    """Trials of a baseline and of each set of layers, whose loss is that given but for noise of seeds and sentences."""
    rng = np.random.default_rng(0)
    specs, rows, values = [], [], {}
    for layers, loss in {(): 0.0, **losses}.items():
        for seed in range(seeds):
            freeze: dict[str, Any] = {"strategy": "layers", "layers": layers, "embeddings": False}
            spec = make_spec(freeze=freeze if layers else {"strategy": "none"}, seed=seed)
            of_each = 0.9 - loss + rng.normal(0, noise, N_SENTENCES)
            score, params = of_each.mean(), PARAMS - 100 * len(layers)
            row = {"trial_id": spec.trial_id, "state": "completed", "best_score": score, "trainable_params": params}
            specs.append(spec)
            rows.append(row)
            values[spec.trial_id] = of_each
    return with_sentences(trial_frame(specs, rows), values)


def best(losses: Mapping[tuple[int, ...], float], **more: Any) -> pd.DataFrame:
    return best_placements(frame(losses, **more), "trainable_params")


def test_each_budget_has_the_set_that_loses_least_among_those_that_keep_it() -> None:
    found = best({(0,): 0.03, (3,): 0.01, (0, 1): 0.02, (4, 5): 0.05})
    assert found["saved"].tolist() == pytest.approx([0.1, 0.2])
    assert found["n_sets"].tolist() == [4, 2]
    assert found["loss"].tolist() == pytest.approx([0.01, 0.02])
    assert found["agreement"].tolist() == [1.0, 1.0]


def test_among_equal_sets_the_luckiest_looks_better_than_what_it_loses_elsewhere() -> None:
    equal: dict[tuple[int, ...], float] = {(j, i): 0.02 for i in range(6) for j in range(i)}
    found = best(equal, noise=0.2).iloc[0]
    assert found["seen"] < 0.02 - 0.005
    assert found["low"] < 0.02 < found["high"]
    assert found["loss"] > found["seen"]
    assert found["agreement"] < 1


def test_a_set_that_lacks_seeds_is_no_candidate() -> None:
    rows = frame({(0,): 0.0, (1,): 0.01})
    lacking = rows[(rows["freeze"] == "layers 0") & (rows["seed"] == 0)].index
    found = best_placements(rows.drop(index=lacking), "trainable_params")
    assert found["n_sets"].tolist() == [1]
    assert found["loss"].tolist() == pytest.approx([0.01])


def test_one_seed_selects_nothing() -> None:
    assert not len(best({(0,): 0.0}, seeds=1))
