"""Faults on purpose, for launches with this folder in PYTHONPATH: what FAULT names befalls their trials.

no_memory  on a machine without a GPU: a trial whose batches are not split runs out of memory
cuda       trials of seed 1 do, after their first evaluation, what leaves CUDA unusable in their process
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tests.patched_modules import PatchedModules

FAULT = os.environ.get("PERMAFROST_GPU_FAULT", "")
ASSERT = "CUDA error: device-side assert triggered"


def patch(run: Any) -> None:
    real: Callable[..., Iterator[Any]] = run.run_trial

    def run_trial(spec: Any, **options: Any) -> Iterator[Any]:
        if FAULT == "no_memory" and options.get("accumulation", 1) == 1:
            raise run.torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB (simulated)")
        trial = real(spec, **options)
        if FAULT == "cuda" and spec.seed == 1:
            yield next(trial)
            _break_cuda(run.torch)
        return (yield from trial)

    run.run_trial = run_trial


def _break_cuda(torch: Any) -> None:
    if not torch.cuda.is_initialized():
        raise RuntimeError(f"{ASSERT} (simulated)")
    torch.zeros(2, device="cuda")[torch.tensor([5], device="cuda")]  # no such place
    torch.cuda.synchronize()


sys.meta_path.insert(0, PatchedModules({"trials.run": patch}))
