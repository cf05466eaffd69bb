"""Energy that a GPU board's own counter measured during training; elsewhere it is unknown.

The counter includes everything that runs on the board, idle power too; for a shared GPU see `EpochRecord.placed`.
Volta or newer has one (NVIDIA's NVML API reference, `nvmlDeviceGetTotalEnergyConsumption`). It is updated every 20 to
100 ms (PETSc's manual on `PetscLogGpuEnergyMeter`), so shorter intervals are inaccurate.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch


class EnergyMeter:
    """Measures joules between `start` and `stop`; None where they are unknown.

    Args:
        read_j: The joules that a counter has reached, or None if it cannot be read; None for no counter.
    """

    def __init__(self, read_j: Callable[[], float | None] | None) -> None:
        self._read_j = read_j or (lambda: None)
        self._start_j: float | None = None

    @classmethod
    def of(cls, device: torch.device) -> EnergyMeter:
        """The meter of a device; it measures None without a readable counter."""
        is_gpu = device.type == "cuda" and torch.version.hip is None
        return cls(board_counter(str(torch.cuda.get_device_properties(device).uuid)) if is_gpu else None)

    def start(self) -> None:
        """Start measuring."""
        self._start_j = self._read_j()

    def stop(self) -> float | None:
        """Joules since `start`; None also if the driver was loaded anew meanwhile."""
        end_j = self._read_j()
        if self._start_j is None or end_j is None or end_j < self._start_j:
            return None
        return end_j - self._start_j


def board_counter(uuid: str) -> Callable[[], float | None] | None:
    """The counter of a GPU, by torch's UUID; None if it has none, and for an instance (MIG), which shares its board's.

    By UUID because NVML numbers all GPUs of the machine, and CUDA those that the process may see.
    """
    import pynvml  # the package nvidia-ml-py

    def read_j() -> float | None:
        with suppress(pynvml.NVMLError):
            return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3
        return None

    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        with suppress(pynvml.NVMLError_NotSupported):  # of a GPU without such a mode
            if pynvml.nvmlDeviceGetMigMode(handle)[0]:
                return None
    except pynvml.NVMLError:
        return None
    return None if read_j() is None else read_j
