"""What freezing rules see of a training."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.trials.conftest import TrialMaker, finished
from trials.cache.encoding import encode_for
from trials.freeze.rules import Row
from trials.run import new_model, new_training, run_trial, train_subset
from trials.spec import TrialSpec
from trials.training.freeze_course import FreezeSchedule
from trials.training.loop import Training, count_labels, mean_loss

CPU = torch.device("cpu")


def rule(name: str, **parameters: Any) -> dict[str, Any]:
    return {"strategy": "adaptive", "rule": {"name": name, **parameters}}


def start(spec: TrialSpec) -> Training:
    data = encode_for(spec)
    loaded = new_model(spec, len(data.labels), CPU)
    return new_training(spec, loaded, data, train_subset(spec, data.train), CPU)


def rows_after(spec: TrialSpec, n_steps: int) -> list[Row]:
    training = start(spec)
    course = FreezeSchedule(spec, training)
    course.train_to(n_steps)
    return course.rows


def test_gradients_are_summed_over_an_interval_before_their_norm_is_taken(make_trial: TrialMaker) -> None:
    freeze = rule("gradient_norm", intervals=6)
    # So small a rate that the second step's gradient is at the first step's weights.
    spec = make_trial(freeze=freeze, dropout=0.0, optim={"lr": 1e-12, "max_grad_norm": None, "weight_decay": 0.0})
    training = start(spec)
    for _ in range(2):
        batch = next(training.device_batches)
        mean_loss(training.loaded.model, batch, count_labels(batch)).backward()
    layers = training.loaded.parts.encoder_layers
    expected = [sum(p.grad.abs().sum().item() for p in layer.parameters() if p.grad is not None) for layer in layers]
    assert rows_after(spec, 2)[0] == pytest.approx(expected, rel=1e-4)


def test_frozen_layers_are_not_measured(make_trial: TrialMaker) -> None:
    rows = rows_after(make_trial(freeze=rule("gradient_norm", intervals=6, percentile=100)), 12)
    assert len(rows) == 5
    measured = [[value is not None for value in row] for row in rows]
    assert measured[0] == measured[1] == [True] * 4
    assert measured == sorted(measured, reverse=True)


def test_activations_have_not_moved_if_nothing_is_learnt_and_move_more_the_more_is(make_trial: TrialMaker) -> None:
    freeze = rule("plasticity", intervals=2)
    last = {
        lr: rows_after(make_trial(freeze=freeze, optim={"lr": lr, "head_lr": 1e-2}), 12)[-1]
        for lr in (1e-12, 1e-3, 1e-2)
    }
    values = {lr: [value or 0.0 for value in row] for lr, row in last.items()}
    assert values[1e-12] == pytest.approx([0.0] * 4, abs=1e-10)
    assert all(0 < small < large for small, large in zip(values[1e-3], values[1e-2], strict=True))


def test_measuring_changes_no_step_and_its_operations_count(make_trial: TrialMaker) -> None:
    plain = list(run_trial(make_trial(freeze="none"), device=CPU))
    patient = make_trial(freeze=rule("plasticity", intervals=6, patience=100))
    watched = list(run_trial(patient, device=CPU))
    assert [r.step_losses for r in watched] == [r.step_losses for r in plain]
    assert all((w.training_flops or 0) > (p.training_flops or 0) for w, p in zip(watched, plain, strict=True))


@pytest.mark.parametrize("name", ["gradient_norm", "plasticity"])
def test_a_layer_that_a_rule_froze_keeps_its_weights_and_loses_its_moments(name: str, make_trial: TrialMaker) -> None:
    eager: dict[str, dict[str, Any]] = {
        "gradient_norm": {"percentile": 100},
        "plasticity": {"tolerance": 0.9, "window": 2, "patience": 1},
    }
    spec = make_trial(freeze=rule(name, intervals=18, **eager[name]), optim={"epochs": 3})
    training = start(spec)
    course = FreezeSchedule(spec, training)
    while course.freeze.depth == 0:
        course.train_to(training.step + 1)
    lowest = training.loaded.parts.encoder_layers[0]
    before, moments = [p.clone() for p in lowest.parameters()], training.optimizer.state
    assert not any(p in moments for p in (*lowest.parameters(), *training.loaded.parts.embeddings.parameters()))
    course.train_to(training.n_steps)
    assert all(torch.equal(p, q) for p, q in zip(lowest.parameters(), before, strict=True))


def test_a_trial_says_at_every_evaluation_how_deep_it_is_frozen(make_trial: TrialMaker) -> None:
    spec = make_trial(freeze=rule("schedule", depths=[0, 2, 3]), optim={"epochs": 3})
    thawing = make_trial(freeze={"strategy": "first_k", "depth": 2}, thaw_every=1, optim={"epochs": 3})
    for each, depths, means in ((spec, [0, 2, 3], [0, 1, 5 / 3]), (thawing, [2, 1, 0], [2, 1.5, 1])):
        records, _ = finished(run_trial(each, device=CPU))
        assert [record.frozen_layers for record in records] == depths
        assert [record.mean_frozen_layers for record in records] == pytest.approx(means)
    assert len({record.trainable_params for record in records}) == 1
