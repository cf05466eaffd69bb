"""Recorded steps are the steps: the same losses, whatever changes between them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np
import pytest
import torch

from tests.examples import each
from tests.trials.conftest import TrialMaker, step_losses
from tests.trials.training.recorders import Recorders
from tests.trials.training.test_checkpoint import interrupted_after
from trials.cache.encoding import encode_for
from trials.errors import DivergedError
from trials.models.family import StepMode
from trials.run import run_trial
from trials.spec import TrialSpec
from trials.training.batching import Batch, shuffled_batches
from trials.training.checkpoint import Checkpoints
from trials.training.freeze_course import FreezeSchedule
from trials.training.loop import Training, evaluate
from trials.training.new_training import new_model, new_training, train_subset
from trials.training.step_graphs import StepGraphs

CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def start(spec: TrialSpec, device: torch.device = CPU, *, graphs: bool, recorders: Recorders | None = None) -> Training:
    mode: StepMode = "graphs" if graphs else "rows" if device.type == "cpu" else "padded"
    data, loaded = encode_for(spec), new_model(spec, len(encode_for(spec).labels), device, mode=mode)
    training = new_training(spec, loaded, data, train_subset(spec, data.train), device, mode=mode)
    order = shuffled_batches(len(training.examples), spec.optim.batch_size, np.random.default_rng(0))
    training.feed(training.examples, order)
    if recorders is not None:
        training.step_graphs = StepGraphs(recorders.new)
    return training


def spec_of(make_trial: TrialMaker, family: str = "bert", **changes: Any) -> TrialSpec:
    optim = {"lr": 1e-3, "batch_size": 4, "epochs": 4, "warmup": 0.2}
    return make_trial(family, train_size=22, optim=optim | changes.pop("optim", {}), **{"dropout": 0.0, **changes})


SETTINGS: list[dict[str, Any]] = [{"head_lr": 1e-2, "layer_decay": 0.5}, {"max_grad_norm": None}]


@each("settings", SETTINGS, quick=1)
@each("family", ["distilbert", "roberta"], quick=1)
def test_twenty_steps_have_the_losses_of_the_eager_loop(
    family: str, settings: dict[str, Any], make_trial: TrialMaker
) -> None:
    spec, recorders = spec_of(make_trial, family, optim=settings | {"batch_size": 2}), Recorders()
    eager = FreezeSchedule(spec, start(spec, graphs=False)).train_to(20)
    losses = FreezeSchedule(spec, start(spec, graphs=True, recorders=recorders)).train_to(20)
    (recorder,) = recorders
    assert losses == pytest.approx(eager, abs=1e-6)
    assert eager[-1] < eager[0]
    assert recorder.warm_ups == recorder.recorded == 2  # 16 subwords, or as many as the longest sentence has
    assert recorder.warm_ups + recorder.replays == 20


def test_a_thaw_drops_what_was_recorded_and_an_evaluation_does_not(make_trial: TrialMaker) -> None:
    freeze = {"strategy": "first_k", "depth": 2, "embeddings": True}
    spec, losses = spec_of(make_trial, freeze=freeze, thaw_every=1), []
    for recorders in (None, Recorders()):
        training = start(spec, graphs=recorders is not None, recorders=recorders)
        thawing = FreezeSchedule(spec, training)
        found: tuple[float, ...] = ()
        for stop in (3, 9, 20):
            found += thawing.train_to(stop)
            evaluate(training, encode_for(spec).dev)
        losses.append(found)
    assert recorders is not None
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)
    assert len(recorders) == 4  # one for each of the freezes, of six steps each
    assert sum(recorder.warm_ups + recorder.replays for recorder in recorders) == 20
    assert all(recorder.replays for recorder in recorders[:3])


def test_the_rate_of_a_recorded_step_is_read_when_it_is_replayed(make_trial: TrialMaker) -> None:
    training = start(spec_of(make_trial), graphs=True, recorders=Recorders())
    rates = [group["lr"] for group in training.optimizer.param_groups]
    for step in (1, 5, 23):
        training.step = step
        training.set_lr()
        assert [float(rate) for rate in rates] == pytest.approx([training.lr] * len(rates))
    assert all(rate is group["lr"] for rate, group in zip(rates, training.optimizer.param_groups, strict=True))


def test_a_loss_that_is_not_finite_is_found_in_replays_too(make_trial: TrialMaker) -> None:
    spec = spec_of(make_trial, optim={"lr": 1e25, "warmup": 0.0, "max_grad_norm": None})
    training = start(spec, graphs=True, recorders=Recorders())
    with pytest.raises(DivergedError, match=r"the training loss is (nan|inf) at step \d+; lower optim\.lr\."):
        FreezeSchedule(spec, training).train_to(20)


def batches(*lengths: int, n: int = 2) -> Iterator[Batch]:
    for i, length in enumerate(lengths):
        numbers = torch.full((n, length), i)
        yield Batch(numbers, numbers, numbers, None, None)


@needs_gpu
@each("precision", ["fp32", "bf16", "fp16"])
@each("freeze", ["none", {"strategy": "first_k", "depth": 2, "embeddings": True}])
def test_cuda_graphs_have_the_losses_of_the_eager_loop(freeze: Any, precision: str, make_trial: TrialMaker) -> None:
    thaw: dict[str, Any] = {} if freeze == "none" else {"thaw_every": 1}
    spec = spec_of(make_trial, freeze=freeze, precision=precision, **thaw)
    eager_losses, graph_losses = (
        FreezeSchedule(spec, start(spec, GPU, graphs=graphs)).train_to(20) for graphs in (False, True)
    )
    assert graph_losses == pytest.approx(eager_losses, abs=1e-5 if precision == "fp32" else 1e-2)


@needs_gpu
def test_each_replay_draws_a_mask_of_its_own(make_trial: TrialMaker) -> None:
    spec = spec_of(make_trial, dropout=0.3, optim={"lr": 1e-30, "weight_decay": 0.0})
    training = start(spec, GPU, graphs=True)
    training.feed(training.examples, repeat(np.arange(4)))
    losses = FreezeSchedule(spec, training).train_to(12)
    assert len(set(losses[2:])) > 5  # the same sentences and weights each time


@needs_gpu
def test_a_resumed_trial_goes_on_with_the_masks_of_an_uninterrupted_one(make_trial: TrialMaker) -> None:
    spec = make_trial("bert", dropout=0.1)
    resumed = run_trial(spec, device=GPU, checkpoints=Checkpoints(interrupted_after(7, spec, device=GPU)))
    assert step_losses(resumed) == pytest.approx(step_losses(run_trial(spec, device=GPU)), abs=1e-4)
