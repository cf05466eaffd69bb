"""Run optimiser steps or whole trials on a device and measure them; every function can run in a worker process."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tests.lab.gpu.workload import changed, encode
from trials.hardware.device import default_device, start_device, wait_for
from trials.models.load import LoadedModel
from trials.run import run_trial
from trials.spec import TrialSpec
from trials.training.freeze_course import FreezeSchedule
from trials.training.gradient_check import checked_mode
from trials.training.loop import Training
from trials.training.new_training import new_model, new_training, train_subset
from trials.training.step_rule import GRAPHS_VARIABLE


@contextmanager
def cuda_graphs(on: bool) -> Iterator[None]:
    """Leave CUDA graphs as the product has them, or turn them off for the trainings that are built inside."""
    before = os.environ.pop(GRAPHS_VARIABLE, None)
    if not on:
        os.environ[GRAPHS_VARIABLE] = "0"
    try:
        yield
    finally:
        os.environ.pop(GRAPHS_VARIABLE, None)
        if before is not None:
            os.environ[GRAPHS_VARIABLE] = before


def training_of(spec: TrialSpec, device: torch.device) -> tuple[LoadedModel, Training]:
    """A trial's model and its training before the first step, in the mode that the product finds right on this node."""
    data, mode = encode(spec), checked_mode(spec, device).mode
    loaded = new_model(spec, len(data.labels), device, mode=mode)
    return loaded, new_training(spec, loaded, data, train_subset(spec, data.train), device, mode=mode)


def release() -> None:
    """Free what the last measurement left on the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def timed_steps(spec: TrialSpec, steps: int, *, warm_up: int, graphs: bool = True) -> dict[str, Any]:
    """Seconds of optimiser steps after a warm-up, and whether they were recorded."""
    device = start_device(default_device())  # attention in the kernels that a trial has
    spec = changed(spec, optim={"epochs": 1 + (warm_up + steps) // max(1, spec.train_size // spec.optim.batch_size)})
    with cuda_graphs(graphs):
        loaded, training = training_of(spec, device)
        unfreezing = FreezeSchedule(spec, training)
        unfreezing.train_to(warm_up)
        wait_for(device)
        began = time.perf_counter()
        unfreezing.train_to(warm_up + steps)
        wait_for(device)
        seconds = time.perf_counter() - began
    found = {"seconds": seconds, "graphs": training.graphs}
    del loaded, training, unfreezing
    release()
    return found


def trial_losses(spec: TrialSpec, *, graphs: bool = True) -> list[float]:
    """The loss of every step of a whole trial."""
    encode(spec)
    with cuda_graphs(graphs):
        losses = [loss for record in run_trial(spec, predictions="none") for loss in record.step_losses]
    release()
    return losses
