"""Detect a worker process whose memory does not return to its level after a trial."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress
from pathlib import Path

import torch

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
