"""Whether a worker's memory comes back to its level after each trial; trials come and go, the process stays."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress
from pathlib import Path

import torch

SLACK_BYTES = 256 << 20  # what warm caches may add without a thought


class MemoryLevel:
    """The memory of this process between its trials. On a GPU also what torch holds there, which must be nothing new.

    Attributes:
        host_bytes: Resident after the first trial; 0 before its end.
        device_bytes: Allocated on the GPU after the first trial.
    """

    def __init__(self) -> None:
        self.host_bytes = self.device_bytes = 0

    def settle(self) -> bool:
        """Give back what the trial that has just ended left; False if the process should make room for a new one.

        That is where twice the level of the first trial, and some, stay resident: weights and corpora that are kept
        warm are well below it, a trial whose tensors somebody still holds soon is not.
        """
        host, device = resident_bytes(), _device_bytes()
        if host > self.host_bytes + SLACK_BYTES:
            give_back_free()
            host = resident_bytes()
        if not self.host_bytes:
            self.host_bytes, self.device_bytes = host, device
        return host <= 2 * self.host_bytes + SLACK_BYTES and device <= self.device_bytes + SLACK_BYTES


def resident_bytes() -> int:
    """Memory of this process that is in RAM now; where the kernel does not say, the most there ever was."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(pages) * resource.getpagesize()


def _device_bytes() -> int:
    """Allocated on the GPU; blocks that torch only keeps for later go back to the card, for those it is shared with."""
    if not torch.cuda.is_initialized():
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated()


def give_back_free() -> None:
    """Have the C library give free memory back to the system, where it is one that can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
