"""How many trials share a GPU: as many as its memory, the cores and the host's memory have room for.

The memory of a trial is estimated from shapes (`gpu_memory.gpu_bytes`), until what one holds is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from orchestrator.execution.slots import Node
from orchestrator.forecast.gpu_memory import EncoderSizes, Lengths, gpu_bytes
from trials.hardware.machine import Gpu
from trials.spec import TrialSpec

CONTEXT_BYTES = 512 << 20  # of the device, for the CUDA of each process: its context, kernels and libraries
HOST_BYTES = 2 << 30  # of the host, for each process: torch, CUDA, a corpus
RESERVE = 0.04  # of a device, for what nobody counts
SPARE = 1.2  # times a peak, as torch's allocator holds more than it has given out

Read = Callable[[TrialSpec], tuple[EncoderSizes, Lengths] | None]


def estimated_bytes(specs: Iterable[TrialSpec], read: Read) -> float | None:
    """The estimated peak of the trial that takes most; None if the model or corpus of one cannot be read."""
    peaks = []
    for spec in {spec.cell_id: spec for spec in specs}.values():
        if (inputs := read(spec)) is None:
            return None
        peaks.append(gpu_bytes(spec, *inputs))
    return max(peaks, default=None)


def fitting(gpus: Sequence[Gpu], peak_bytes: float, spare: float = SPARE) -> int:
    """How many trials of such a peak fit on the smallest of some GPUs, beside what other programs hold; 0 if none."""
    own = CONTEXT_BYTES + spare * peak_bytes
    free = [(gpu.n_bytes if gpu.free_bytes is None else gpu.free_bytes) - RESERVE * gpu.n_bytes for gpu in gpus]
    return max(0, int(min(free, default=0.0) // own))


def most_on_a_gpu(nodes: Sequence[Node], cpus: int) -> int:
    """How many trials of so many cores the nodes can feed on each of their GPUs, on the node that can feed most."""
    by_host = (min(node.cpus // cpus, node.memory_bytes / HOST_BYTES) / node.gpus for node in nodes)
    return max(1, int(max(by_host, default=1)))


def share_of(n: int) -> float:
    """The fraction of a GPU that each of `n` trials requests; Ray counts in ten-thousandths."""
    return math.floor(10_000 / n) / 10_000


def packed_share(gpus: Sequence[Gpu], cores: int, cpus: int, specs: Sequence[TrialSpec], read: Read) -> float:
    """The share of a trial at the start of a launch on this machine, for its forecast."""
    peak = estimated_bytes(specs, read)
    if peak is None or not gpus:
        return 1.0
    room = most_on_a_gpu([Node("gpu", cores, len(gpus))], cpus)
    return share_of(max(1, min(room, fitting(gpus, peak), -(-len(specs) // len(gpus)))))
