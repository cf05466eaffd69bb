"""Gradual unfreezing: each tensor keeps its bits until its epoch has come, and learns from then on."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from tests.trials.conftest import TrialMaker, load_tiny, model_inside
from trials.models.load import LoadedModel
from trials.run import run_trial
from trials.spec import FreezeSpec, TrialSpec

CPU = torch.device("cpu")
LEVEL: dict[str, Any] = {"lr": 1e-2, "schedule": "constant"}


def moved(spec: TrialSpec, now: LoadedModel) -> dict[str, bool]:
    """Whether all tensors of each part of the encoder are other ones than in the folder; a part is one or the other."""
    before = load_tiny(spec)
    parts = {f"layer {i}": pair for i, pair in enumerate(zip(before.parts.encoder_layers, now.parts.encoder_layers))}  # noqa: B905
    found = {}
    for name, (old, new) in {**parts, "embeddings": (before.parts.embeddings, now.parts.embeddings)}.items():
        changed = {not torch.equal(p, q) for p, q in zip(old.parameters(), new.parameters(), strict=True)}
        assert len(changed) == 1, f"{name} moved in part"
        found[name] = changed.pop()
    return found


def learning(spec: TrialSpec, freeze: FreezeSpec) -> dict[str, bool]:
    layers = {f"layer {i}": i not in freeze.layers for i in range(spec.model.n_layers)}
    return {**layers, "embeddings": not freeze.embeddings}


FREEZES: list[dict[str, Any]] = [
    {"strategy": "first_k", "depth": 2, "embeddings": True},
    {"strategy": "layers", "layers": [1, 3]},
    {"strategy": "none", "embeddings": True},
]


@each("freeze", FREEZES, quick=2)
def test_after_each_epoch_just_what_was_thawed_has_moved(freeze: dict[str, Any], make_trial: TrialMaker) -> None:
    spec = make_trial("bert", freeze=freeze, thaw_every=1, train_size=8, optim=LEVEL | {"epochs": 5})
    records = run_trial(spec, device=CPU)
    for epoch in range(1, 5):
        assert next(records).epoch == epoch
        assert moved(spec, model_inside(records)) == learning(spec, spec.freeze.after_thaws(epoch - 1))


def test_thawing_waits_for_so_many_epochs_also_between_evaluations(make_trial: TrialMaker) -> None:
    freeze = {"strategy": "first_k", "depth": 2}
    spec = make_trial(freeze=freeze, train_size=8, thaw_every=2, eval_every=0.5, optim=LEVEL | {"epochs": 5})
    records, seen = run_trial(spec, device=CPU), []
    for _ in range(9):
        record = next(records)
        seen.append((record.epoch, sum(moved(spec, model_inside(records)).values())))
    assert seen == [(0.5, 3), (1.0, 3), (1.5, 3), (2.0, 3), (2.5, 4), (3.0, 4), (3.5, 4), (4.0, 4), (4.5, 5)]


def test_one_evaluation_at_the_end_of_an_epoch_does_not_change_what_is_learnt(make_trial: TrialMaker) -> None:
    changes = {
        "freeze": {"strategy": "first_k", "depth": 3},
        "thaw_every": 1,
        "train_size": 16,
        "optim": LEVEL | {"epochs": 3},
    }
    often, seldom = (
        [
            loss
            for record in run_trial(make_trial(**changes, eval_every=every), device=CPU)
            for loss in record.step_losses
        ]
        for every in (0.25, 1.0)
    )
    assert often == seldom


@given(st.sets(st.integers(0, 11)), st.booleans(), st.integers(0, 15))
def test_each_thaw_takes_the_highest_frozen_layer_and_the_last_the_embeddings(
    layers: set[int], embeddings: bool, n: int
) -> None:
    freeze = FreezeSpec(strategy="layers", layers=tuple(sorted(layers)), embeddings=embeddings)
    left = freeze.after_thaws(n)
    assert left.layers == tuple(sorted(layers)[: max(len(layers) - n, 0)])
    assert left.embeddings == (embeddings and n <= len(layers))
    assert left.after_thaws(1) == freeze.after_thaws(n + 1) or n == 0
