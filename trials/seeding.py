"""Named random streams from one seed: random numbers of one part of a trial never affect another part.

Two trials with the same seeds have the same subset, order and initial head whatever they freeze, so their results can
be compared in pairs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def stream_seed(seed: int, name: str) -> int:
    """A seed for the stream `name`, independent of all other names."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8], "big") >> 1


def numpy_stream(seed: int, name: str) -> np.random.Generator:
    """The named stream as a numpy generator."""
    return np.random.default_rng(stream_seed(seed, name))


def torch_stream(seed: int, name: str) -> torch.Generator:
    """The named stream as a torch generator on the CPU."""
    return torch.Generator().manual_seed(stream_seed(seed, name))


class GlobalStream:
    """A named stream for code that uses torch's global generators, as dropout does.

    Inside `with stream.use():` the global generators are in this stream's state; afterwards they are restored, so
    that trials that alternate in one process do not affect each other.

    Attributes:
        states: State of the CPU's generator and, on a GPU, of the GPU's.
    """

    states: list[torch.Tensor]

    def __init__(self, seed: int, name: str, device: torch.device) -> None:
        self._devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(self._devices):
            torch.manual_seed(stream_seed(seed, name))
            self._save()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Use this stream, and save its state at the end."""
        with torch.random.fork_rng(self._devices):
            torch.set_rng_state(self.states[0])
            for device, state in zip(self._devices, self.states[1:], strict=True):
                torch.cuda.set_rng_state(state, device)
            yield
            self._save()

    def _save(self) -> None:
        self.states = [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in self._devices)]
