"""The device of a trial: its name and precision; seconds, energy and memory of what runs on it, and what it leaves."""

from __future__ import annotations

import ctypes
import resource
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path

import torch

from trials.errors import NoDeviceError
from trials.hardware.machine import processor_name


def default_device() -> torch.device:
    """The first GPU that this process may use, else the CPU."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def start_device(device: torch.device) -> torch.device:
    """The device, ready for a trial in this process.

    torch initialises CUDA at the first tensor, but what resets or reads its statistics fails before: "Invalid device
    argument". Attention runs in torch's own kernels: cuDNN's take a second for each new shape of a batch, and some
    versions have NaN gradients (pytorch #196678) or another rate of dropout (#174245).
    """
    torch.set_float32_matmul_precision("highest")  # fp32 is fp32, also where a container's environment allows TF32
    if device.type == "cuda":
        torch.cuda.init()
        torch.cuda.set_device(device)  # streams, graphs and generators that are not given a device belong to this one
        torch.backends.cuda.enable_cudnn_sdp(False)  # else all attention in half precision on cards 9.x and 10.x
    return device


def device_for(gpus: float) -> torch.device:
    """The device of a trial with `gpus` GPUs: the first of these, or the CPU for 0 even if its process sees a GPU.

    Raises:
        NoDeviceError: torch cannot use the GPU that it was given.
    """
    if not gpus:
        return torch.device("cpu")
    if (device := default_device()).type == "cpu":
        raise NoDeviceError(
            f"this trial was given {gpus:g} of a GPU on {socket.gethostname()}, but torch there sees none. Install a "
            "CUDA build of torch that its driver supports, or set resources.gpus to 0."
        )
    return device


_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@cache
def device_name(device: torch.device) -> str:
    """A name under which times may be compared: `NVIDIA H200`, or `cpu AMD EPYC`."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return processor_name()


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """A context for the arithmetic of a model's forward pass: ``fp32``, ``bf16`` or ``fp16``."""
    return torch.autocast(device.type, dtype=_DTYPES[precision], enabled=precision != "fp32")


def wait_for(device: torch.device) -> None:
    """Wait for all work queued on the device, so that times can be measured."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Clock:
    """Seconds by what they were spent on, including all work that is queued on the device.

    `with clock("setup_s"): ...` adds to a column of the record, whose value the record takes.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._spent = device, defaultdict[str, float](float)

    @contextmanager
    def __call__(self, column: str) -> Iterator[None]:
        """Add the seconds of the block to a column."""
        wait_for(self._device)
        start = time.perf_counter()
        yield
        wait_for(self._device)
        self._spent[column] += time.perf_counter() - start

    def move(self, column: str, other: str, seconds: float) -> None:
        """Count seconds that were spent in one column's block towards another column."""
        self._spent[column] -= seconds
        self._spent[other] += seconds

    def take(self, column: str) -> float:
        """The seconds of a column since they were taken last."""
        return self._spent.pop(column, 0.0)


class PeakMemory:
    """The largest memory since this was made."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        self._is_reset = _reset_resident_peak()
        self._without_input = 0

    def before_input(self) -> None:
        """Mark the point from which input may lie on the GPU; its size is passed to `device_bytes`."""
        self._without_input = self.device_bytes(0) or 0

    def device_bytes(self, input_bytes: int) -> int | None:
        """The peak of torch's allocator on a GPU, but for input; None on a CPU, whose memory all trials before share.

        Trained from a file on the host, the same trial would take as much less, and one that freezes nothing has none.
        """
        if self._device.type != "cuda":
            return None
        return max(self._without_input, torch.cuda.max_memory_allocated(self._device) - input_bytes)

    def process_bytes(self) -> int:
        """The peak of the process's resident memory; if the kernel cannot reset it, since the process started."""
        if self._is_reset:
            status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
            return 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def reserved_peak() -> int | None:
    """The most GPU memory that torch reserved for this process since `PeakMemory` was made, in bytes: allocated memory,
    cached blocks and the private pools of CUDA graphs. None if CUDA was not used.
    """
    return torch.cuda.max_memory_reserved() if torch.cuda.is_initialized() else None


def _reset_resident_peak() -> bool:
    """Reset the kernel's VmHWM (proc(5), clear_refs); False if that is not possible."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


class EnergyMeter:
    """Measures joules between `start` and `stop` by the counter of a GPU's board; None where they are unknown.

    The counter includes everything that runs on the board, idle power too; shared: `EpochRecord.with_placement`.
    Volta or newer has one (NVIDIA's NVML API reference, `nvmlDeviceGetTotalEnergyConsumption`). It is updated every 20
    to 100 ms (PETSc's manual on `PetscLogGpuEnergyMeter`), so shorter intervals are inaccurate.

    Args:
        read_j: The joules that a counter has reached, or None if it cannot be read; None for no counter.
    """

    def __init__(self, read_j: Callable[[], float | None] | None) -> None:
        self._read_j = read_j or (lambda: None)
        self._start_j: float | None = None

    @classmethod
    def for_device(cls, device: torch.device) -> EnergyMeter:
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


SLACK_BYTES = 256 << 20  # what warm caches may add


class MemoryLevel:
    """The memory of this process between its trials: resident, and on a GPU also what torch has allocated.

    Attributes:
        host_bytes: Resident after the first trial; 0 before its end.
        device_bytes: Allocated on the GPU after the first trial.
    """

    def __init__(self) -> None:
        self.host_bytes = self.device_bytes = 0

    def settle(self) -> bool:
        """Release memory after a trial; False if the process should be replaced by a new one.

        That is the case if more than twice the level after the first trial, plus some slack, stays resident: cached
        weights and corpora stay well below it, leaked tensors of past trials soon exceed it.
        """
        host, device = resident_bytes(), _device_bytes()
        if host > self.host_bytes + SLACK_BYTES:
            release_free_memory()
            host = resident_bytes()
        if not self.host_bytes:
            self.host_bytes, self.device_bytes = host, device
        return host <= 2 * self.host_bytes + SLACK_BYTES and device <= self.device_bytes + SLACK_BYTES


def resident_bytes() -> int:
    """Resident memory of this process; if the kernel does not report it, its peak so far."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(pages) * resource.getpagesize()


def _device_bytes() -> int:
    """Memory allocated on the GPU, after returning blocks that torch has cached to other users of the GPU."""
    if not torch.cuda.is_initialized():
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated()


def release_free_memory() -> None:
    """Return free heap memory to the system, if the C library supports it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
