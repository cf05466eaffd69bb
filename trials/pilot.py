"""Measure the memory of a trial: run its first steps on its longest examples."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import torch

from trials.cache.encoding import encode_for
from trials.hardware.device import PeakMemory, default_device
from trials.run import new_model, new_training
from trials.spec import TrialSpec
from trials.tasks.task import Split
from trials.training.freeze_course import FreezeSchedule
from trials.training.loop import EVAL_BATCH_SIZE, evaluate

N_STEPS = 3  # the optimiser's moments are allocated in the first, and the allocator is stable by the third


@dataclass(frozen=True)
class Footprint:
    """Memory of one trial on a device.

    Attributes:
        used_bytes: On a GPU all memory in use at the peak, including CUDA's own context and other programs; on a CPU
            the peak of this process.
    """

    used_bytes: int
    total_bytes: int


def footprint(spec: TrialSpec, device: torch.device | None = None) -> Footprint:
    """Train a few steps and evaluate a batch, each on the longest examples there are.

    Raises:
        DataError, ModelError: as the trial would.
        torch.OutOfMemoryError: not even one trial fits.
    """
    device = device or default_device()
    memory, data = PeakMemory(device), encode_for(spec)
    loaded = new_model(spec, len(data.labels), device)
    training = new_training(spec, loaded, data, _longest(data.train, spec.optim.batch_size), device)
    FreezeSchedule(spec, training).train_to(min(N_STEPS, training.n_steps))
    dev = _longest(data.dev, EVAL_BATCH_SIZE)
    evaluate(training, Split([data.dev.examples[i] for i in dev]))
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)  # blocks cached by torch are not free, so this is the peak
        return Footprint(total - free, total)
    return Footprint(memory.process_bytes(), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _longest(split: Split, n: int) -> np.ndarray:
    lengths = np.array([len(example.ids) for example in split.examples])
    return np.argsort(-lengths, kind="stable")[:n]
