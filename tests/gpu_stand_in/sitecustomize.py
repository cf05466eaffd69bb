"""A machine with GPUs, simulated, for processes with this folder in PYTHONPATH: torch believes in STAND_IN_GPUS GPUs.

CUDA_VISIBLE_DEVICES shows some of them, as CUDA would. What a trial computes on one is computed on the CPU; in the file
STAND_IN_LOG stands, a line a trial, what it was given and what it could see.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.patched_modules import PatchedModules

NAME, N_BYTES, HELD = "NVIDIA H100 (simulated)", 80 << 30, 1 << 30


def visible() -> list[str]:
    """The GPUs that this process sees: CUDA ends its list at the first that does not exist."""
    all_of_them = [str(i) for i in range(int(os.environ.get("STAND_IN_GPUS", "0")))]
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is None:
        return all_of_them
    found = list[str]()
    for each in shown.split(","):
        if each not in all_of_them:
            break
        found.append(each)
    return found


def patch_torch(torch: Any) -> None:
    real_available, real_count = torch.cuda.is_available, torch.cuda.device_count

    def believes() -> bool:
        """Only we do: what torch itself would do with a GPU it cannot do here."""
        return sys._getframe(2).f_globals["__name__"].partition(".")[0] in ("__main__", "trials", "orchestrator")

    torch.cuda.is_available = lambda: bool(visible()) if believes() else real_available()
    torch.cuda.device_count = lambda: len(visible()) if believes() else real_count()
    torch.cuda.get_device_properties = lambda i: SimpleNamespace(name=NAME, total_memory=N_BYTES)
    torch.cuda.mem_get_info = lambda i: (N_BYTES, N_BYTES)
    real_ones, broken = torch.ones, os.environ.get("STAND_IN_BROKEN", "").split(",")

    def ones(*shape: int, **options: Any) -> Any:
        """What a card is asked to compute with; one that is broken cannot."""
        if str(device := options.get("device", "")).startswith("cuda:"):
            if visible()[int(str(device).partition(":")[2])] in broken:
                raise RuntimeError("CUDA error: no kernel image is available for execution on the device")
            del options["device"]
        return real_ones(*shape, **options)

    torch.ones = ones


def patch_machine(machine: Any) -> None:
    machine.may_have_gpus = lambda: True


def patch_device(device: Any) -> None:
    cpu_name, real = device.device_name, device.device_for

    def device_for(gpus: float) -> Any:
        given = real(gpus).type  # raises where a GPU was given and none is seen
        if log := os.environ.get("STAND_IN_LOG"):
            seen = {
                "pid": os.getpid(),
                "gpus": gpus,
                "device": given,
                "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
            }
            with open(log, "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write(json.dumps(seen) + "\n")
        return device.torch.device("cpu")

    device.device_for = device_for
    device.device_name = lambda on: NAME if visible() else cpu_name(on)
    device.reserved_peak = lambda: HELD if visible() else None


class FailingRecorder:
    """A recorder that fails in a trial, not in the check. As on a card, torch then goes on capturing: what works no
    longer in such a process does not here.
    """

    def __init__(self, device: Any) -> None: ...

    def warm_up(self, step: Callable[[], Any]) -> Any:
        return step()

    def record(self, step: Any) -> Callable[[], Any]:
        if step.args[0].n_steps != sys.modules["trials.training.gradient_check"].N_RECORDED:
            torch: Any = sys.modules["torch"]
            torch.nn.functional.dropout = failing("Offset increment outside graph capture encountered unexpectedly.")
            torch.cuda.empty_cache = failing("captures_underway.empty() INTERNAL ASSERT FAILED")
            torch.cuda.is_initialized = lambda: True
            raise RuntimeError("operation not permitted when stream is capturing")
        return step  # type: ignore[no-any-return]


def failing(text: str) -> Callable[..., Any]:
    def fails(*given: Any, **more: Any) -> Any:
        raise RuntimeError(text)

    return fails


def patch_loop(loop: Any) -> None:
    if "STAND_IN_UNRECORDABLE" in os.environ:
        loop.CudaGraphRecorder = FailingRecorder


def patch_check(check: Any) -> None:
    if "STAND_IN_UNRECORDABLE" in os.environ:
        check.MODES["cpu"] = check.MODES["cuda"]


PATCHES: dict[str, Callable[[Any], None]] = {
    "torch": patch_torch, "trials.hardware.machine": patch_machine, "trials.hardware.device": patch_device,
    "trials.training.loop": patch_loop, "trials.training.gradient_check": patch_check,
}  # fmt: skip

sys.meta_path.insert(0, PatchedModules(PATCHES))
