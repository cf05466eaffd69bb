"""A frozen layer has not moved, a trained one has."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.trials.conftest import TrialMaker
from trials.errors import ModelError
from trials.probing.layer_states import LayerDrift, layer_drift, linear_cka
from trials.run import run_trial
from trials.spec import TrialSpec

CPU = torch.device("cpu")


def drifts(spec: TrialSpec) -> list[LayerDrift]:
    kept: list[bytes] = []
    list(run_trial(spec, device=CPU, keep_weights=kept.append))
    return list(layer_drift(spec, kept[0], device=CPU))


def test_frozen_layers_have_not_moved_and_trained_ones_have(make_trial: TrialMaker) -> None:
    found = drifts(make_trial(freeze={"strategy": "first_k", "depth": 2, "embeddings": True}))
    assert [d.depth for d in found] == [0, 1, 2, 3, 4]
    assert [d.weight_change for d in found[:3]] == [0.0, 0.0, 0.0]
    assert [d.cka for d in found[:3]] == pytest.approx([1.0, 1.0, 1.0])
    assert all(d.weight_change > 0 and d.cka is not None and d.cka < 1 for d in found[3:])


def test_adapters_count_as_the_weights_that_they_are_merged_into(make_trial: TrialMaker) -> None:
    found = drifts(make_trial("bert", freeze={"strategy": "first_k", "depth": 2, "embeddings": True}, lora={"rank": 2}))
    assert [d.weight_change > 0 for d in found] == [False, False, False, True, True]


def test_weights_of_another_trial_are_refused(make_trial: TrialMaker) -> None:
    kept: list[bytes] = []
    list(run_trial(make_trial(), device=CPU, keep_weights=kept.append))
    other = make_trial(freeze={"strategy": "first_k", "depth": 1})
    with pytest.raises(ModelError, match="are not those that it trains"):
        list(layer_drift(other, kept[0], device=CPU))


def test_cka_ignores_rotation_and_scale_and_sees_other_states() -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(50, 4))
    turned, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    assert linear_cka(states, 3 * states @ turned + 1) == pytest.approx(1.0)
    assert (linear_cka(states, rng.normal(size=(50, 4))) or 1.0) < 0.5
    assert linear_cka(states, np.ones((50, 4))) is None
