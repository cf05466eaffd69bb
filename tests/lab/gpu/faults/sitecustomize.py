"""Faults on purpose, for launches with this folder in PYTHONPATH: what FAULT names befalls their trials.

no_memory  on a machine without a GPU: a trial whose batches are not split runs out of memory
cuda       trials of seed 1 do, after their first evaluation, what leaves CUDA unusable in their process
"""

from __future__ import annotations

import importlib.abc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

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


class Patched(importlib.abc.MetaPathFinder):
    """Finds the module where it is, and patches it once it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "trials.run":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((s for f in others if (s := f.find_spec(fullname, path, target)) is not None), None)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_patch(module: ModuleType) -> None:
            load(module)
            patch(module)

        spec.loader.exec_module = load_and_patch  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Patched())
