"""Gradual unfreezing: each tensor keeps its bits until its epoch has come, and learns from then on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from tests.trials.conftest import TrialMaker, finished, model_inside
from trials.models.load import LoadedModel, load_model
from trials.run import run_trial
from trials.spec import FreezeSpec, TrialSpec

CPU = torch.device("cpu")
LEVEL: dict[str, Any] = {"lr": 1e-2, "schedule": "constant"}


def pretrained(spec: TrialSpec) -> LoadedModel:
    return load_model(spec.model, head="tokens", n_outputs=4, dropout=None, init=torch.Generator())


def moved(spec: TrialSpec, now: LoadedModel) -> dict[str, bool]:
    """Whether all tensors of each part of the encoder are other ones than in the folder; a part is one or the other."""
    before = pretrained(spec)
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


@each("thaw_every, n_learning", [(1, 2), (3, 0)])
def test_the_parameters_that_learn_are_counted_at_the_end(
    thaw_every: int, n_learning: int, make_trial: TrialMaker
) -> None:
    freeze = {"strategy": "all_encoder", "embeddings": True}
    spec = make_trial("bert", freeze=freeze, train_size=8, thaw_every=thaw_every, optim=LEVEL | {"epochs": 3})
    layer = 4 * (16 * 16 + 16) + (16 * 32 + 32) + (32 * 16 + 16) + 2 * 2 * 16
    records = list(run_trial(spec, device=CPU))
    assert {record.trainable_params for record in records} == {n_learning * layer + 16 * 4 + 4}


def test_what_would_thaw_after_the_last_epoch_never_does(make_trial: TrialMaker) -> None:
    changes = {"freeze": {"strategy": "first_k", "depth": 2}, "train_size": 8, "optim": LEVEL | {"epochs": 3}}
    thawing, frozen = make_trial(**changes, thaw_every=3), make_trial(**changes)
    records, trained = finished(run_trial(thawing, device=CPU))
    assert [r.step_losses for r in records] == [r.step_losses for r in run_trial(frozen, device=CPU)]
    assert sum(moved(thawing, trained.loaded).values()) == 3


def test_the_best_weights_of_what_was_thawed_are_put_back_too(make_trial: TrialMaker) -> None:
    optim = LEVEL | {"lr": 0.1, "epochs": 4}
    spec = make_trial(freeze={"strategy": "first_k", "depth": 4}, thaw_every=1, optim=optim, train_size=8)
    records, trained = finished(run_trial(spec, device=CPU))
    best = next(i for i, r in enumerate(records) if r.score == max(r.score for r in records))
    assert moved(spec, trained.loaded) == learning(spec, spec.freeze.after_thaws(best))


@given(st.sets(st.integers(0, 11)), st.booleans(), st.integers(0, 15))
def test_each_thaw_takes_the_highest_frozen_layer_and_the_last_the_embeddings(
    layers: set[int], embeddings: bool, n: int
) -> None:
    freeze = FreezeSpec(strategy="layers", layers=tuple(sorted(layers)), embeddings=embeddings)
    left = freeze.after_thaws(n)
    assert left.layers == tuple(sorted(layers)[: max(len(layers) - n, 0)])
    assert left.embeddings == (embeddings and n <= len(layers))
    assert left.after_thaws(1) == freeze.after_thaws(n + 1) or n == 0


def test_a_trial_says_at_every_evaluation_how_deep_it_is_frozen(make_trial: TrialMaker) -> None:
    spec = make_trial(freeze={"strategy": "first_k", "depth": 2}, train_size=8, thaw_every=1, optim={"epochs": 3})
    records, _ = finished(run_trial(spec, device=CPU))
    assert [record.frozen_layers for record in records] == [2, 1, 0]
    assert [record.mean_frozen_layers for record in records] == pytest.approx([2, 1.5, 1])
