"""`cuda` on a machine without one: tensors of that device are the CPU's, and what torch refuses before CUDA is
initialised is refused.

    python -m tests.cuda_stand_in < TRIALS.json

runs trials, one a line with variables of the environment before it, on it as a worker's process does, and prints for
each as JSON what was called of `torch.cuda`, in order, and how the trial went. It shows the order of calls and runs
what only a GPU's trials run (padded batches, recorded steps, resident corpora), but no kernel of a GPU.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode

NEEDS_CUDA = {  # what torch 2.11 and 2.13 raise for it before `torch.cuda.init`, on a machine with a GPU
    "reset_peak_memory_stats": "Invalid device argument",
    "max_memory_allocated": "Invalid device argument",
    "memory_allocated": "Invalid device argument",
    "memory_stats": "Invalid device argument",
}
calls: list[str] = []


class OnCpu(TorchFunctionMode):
    """Every device that is asked for is the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.pin_memory:
            return args[0]
        given = {name: value for name, value in (kwargs or {}).items() if name != "pin_memory"}
        return func(*map(_on_cpu, args), **{name: _on_cpu(value) for name, value in given.items()})


def _on_cpu(value: Any) -> Any:
    is_gpu = isinstance(value, torch.device) and value.type == "cuda"
    return torch.device("cpu") if is_gpu else value


class Cuda:
    """The functions of `torch.cuda`, each noted when it is called."""

    def __init__(self) -> None:
        self.initialised = False

    def of(self, name: str, result: Callable[..., Any], *, initialises: bool = False) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            calls.append(f"{name}(False)" if args and args[0] is False else name)
            self.initialised = self.initialised or initialises
            if name in NEEDS_CUDA and not self.initialised:
                raise RuntimeError(NEEDS_CUDA[name])
            return result(*args, **kwargs)

        return called


class Stream:
    """A stream that is always done."""

    def __init__(self, device: Any = None) -> None:
        calls.append("Stream")

    def wait_stream(self, other: Any) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def record_event(self) -> SimpleNamespace:
        return SimpleNamespace()

    def is_capturing(self) -> bool:
        return False


class Rerun:
    """A recorder that runs a step again in place of replaying it."""

    def __init__(self, device: torch.device) -> None:
        calls.append("CUDAGraph")

    def warm_up(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        return step()

    def record(self, step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        return step


@contextmanager
def nothing(*args: Any, **kwargs: Any) -> Any:
    yield


def install() -> Cuda:
    """From here on this process has a GPU."""
    cuda, real = Cuda(), torch.cuda
    free = 80 << 30
    properties = SimpleNamespace(name="NVIDIA H200 (stand-in)", uuid="0", total_memory=free, major=9, minor=0)
    plain: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "is_initialized": lambda: cuda.initialised,
        "reset_peak_memory_stats": lambda device=None: None,
        # Less before training, of which it is asked first.
        "max_memory_allocated": lambda device=None: 1 << (29 if calls.count("max_memory_allocated") == 1 else 30),
        "memory_allocated": lambda device=None: 1 << 29,
        "mem_get_info": lambda device=None: (free, free),
        "empty_cache": lambda: None,
        "current_stream": lambda device=None: Stream(),
        "is_current_stream_capturing": lambda: False,  # what an optimiser of torch 2.11 asks
        "stream": nothing,
    }
    initialising: dict[str, Callable[..., Any]] = {
        "init": lambda: None,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "get_device_name": lambda device=None: properties.name,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: (9, 0),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: None,
    }
    for name, result in plain.items():
        setattr(real, name, cuda.of(name, result))
    for name, result in initialising.items():
        setattr(real, name, cuda.of(name, result, initialises=True))
    real.Stream = Stream  # type: ignore[assignment,misc]
    real._lazy_init = real.init
    torch.backends.cuda.enable_cudnn_sdp = cuda.of("enable_cudnn_sdp", torch.backends.cuda.enable_cudnn_sdp)
    # A build for CUDA asks the driver by these; a build for a CPU has no accelerator and does not.
    torch.accelerator.current_device_index = lambda: 0
    torch.accelerator.current_stream = lambda device=None: Stream()  # type: ignore[assignment,return-value]
    return cuda


def main() -> None:
    install()
    from trials.hardware.device import MemoryLevel
    from trials.run import run_trial
    from trials.spec import TrialSpec
    from trials.training import loop

    setattr(loop, "CudaGraphRecorder", Rerun)  # noqa: B010 - an import of that module
    torch.Tensor.record_stream = lambda self, stream: None  # type: ignore[method-assign,assignment]
    names = ("step_mode", "refused_modes", "padding_free", "score", "peak_memory_bytes", "device", "gpus")
    for line in sys.stdin:
        calls.clear()
        variables, spec = json.loads(line)
        with OnCpu(), patch.dict(os.environ, variables):
            records = list(run_trial(TrialSpec.model_validate(spec), device=torch.device("cuda", 0)))
            MemoryLevel().settle()
        losses = [loss for record in records for loss in record.step_losses]
        found = {"calls": calls, "losses": losses, **{name: getattr(records[-1], name) for name in names}}
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
