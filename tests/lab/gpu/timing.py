"""Run optimiser steps or whole trials on a device and measure them; every function can run in a worker process."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tests.lab.gpu.workload import changed, encode
from trials.hardware.device import default_device, wait_for
from trials.models.load import LoadedModel
from trials.run import run_trial
from trials.spec import TrialSpec
from trials.training.freeze_course import FreezeSchedule
from trials.training.gradient_check import checked_mode
from trials.training.loop import Training
from trials.training.new_training import new_model, new_training, train_subset
from trials.training.step_rule import GRAPHS_VARIABLE

WARM_UP = 64  # steps: every padded length has been seen, and recorded where steps are CUDA graphs


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


def timed_steps(
    spec: TrialSpec,
    steps: int,
    *,
    graphs: bool = True,
    warm_up: int = WARM_UP,
    start: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Seconds of optimiser steps after a warm-up, and their counted operations.

    `start` is called between the two: it may wait for other processes.
    """
    device = default_device()
    spec = changed(spec, optim={"epochs": 1 + (warm_up + steps) // max(1, spec.train_size // spec.optim.batch_size)})
    with cuda_graphs(graphs):
        loaded, training = training_of(spec, device)
        unfreezing = FreezeSchedule(spec, training)
        unfreezing.train_to(warm_up)
        wait_for(device)
        if start is not None:
            start()
        before, began = training.flops, time.perf_counter()
        unfreezing.train_to(warm_up + steps)
        wait_for(device)
        seconds = time.perf_counter() - began
    found = {
        "seconds": seconds,
        "steps": steps,
        "flops": training.flops - before,
        "graphs": training.graphs,
    }
    del loaded, training, unfreezing
    release()
    return found


def whole_trial(
    spec: TrialSpec,
    *,
    graphs: bool = True,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """A trial from its set-up to its test score; `report` receives the sums so far at every evaluation."""
    encode(spec)
    began = time.perf_counter()
    found: dict[str, Any] = {}
    with cuda_graphs(graphs):
        records = []
        for record in run_trial(spec, predictions="none"):
            records.append(record)
            found = {
                "seconds": time.perf_counter() - began,
                "step": record.step,
                "setup_s": records[0].setup_s,
                "prefix_s": records[0].prefix_paid_s,
                "train_s": [r.train_s for r in records],
                "eval_s": [r.eval_s for r in records],
                "steps": [r.step for r in records],
                "losses": [loss for r in records for loss in r.step_losses],
                "energy_j": None if record.energy_j is None else sum(r.energy_j or 0.0 for r in records),
                "peak_bytes": max(r.peak_memory_bytes or r.worker_memory_bytes or 0 for r in records),
                "prefix_layers": record.prefix_layers,
            }
            if report is not None:
                report({key: value for key, value in found.items() if key != "losses"})
    release()
    return found
