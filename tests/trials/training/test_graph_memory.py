"""What a process reserves of a GPU by its first evaluation holds the graphs' pool and a first step beside it.

The allocations of real steps go through a small copy of torch's caching allocator (c10/cuda/CUDACachingAllocator.cpp):
blocks of 512 bytes, best fit, segments of 2 MiB, 20 MiB or as large as needed, a pool for each stream and the graphs.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from tests.lab.gpu.workload import CONFIGS, changed
from tests.trials.training.test_cuda_graphs import start
from trials.cache.encoding import encode_for
from trials.draft import Lookup
from trials.training.freeze_course import FreezeSchedule
from trials.training.loop import evaluate
from trials.training.step_graphs import StepGraphs

MIB = 1 << 20


@dataclass(eq=False)
class Block:
    """A part of a segment."""

    n_bytes: int
    free: bool = True


class Allocator:
    """Segments, lists of blocks, by pool and whether blocks are small; reserved and allocated bytes."""

    def __init__(self) -> None:
        self.pool = "computing"
        self.segments = defaultdict[tuple[str, bool], list[list[Block]]](list)
        self.reserved = self.peak = self.allocated = self.allocated_peak = 0

    def take(self, n_bytes: int) -> tuple[list[Block], Block]:
        n_bytes = -(-n_bytes // 512) * 512
        segments = self.segments[self.pool, n_bytes <= MIB]
        fit = [(block.n_bytes, i, j) for i, s in enumerate(segments) for j, block in enumerate(s) if block.free]
        found = min((each for each in fit if each[0] >= n_bytes), default=None)
        if found is None:
            size = 2 * MIB if n_bytes <= MIB else 20 * MIB if n_bytes < 10 * MIB else -(-n_bytes // (2 * MIB)) * 2 * MIB
            segments.append([Block(size)])
            self.reserved += size
            self.peak = max(self.peak, self.reserved)
            found = size, len(segments) - 1, 0
        segment = segments[found[1]]
        block, rest = segment[found[2]], found[0] - n_bytes
        if rest >= (512 if n_bytes <= MIB else MIB + 1):
            block.n_bytes = n_bytes
            segment.insert(found[2] + 1, Block(rest))
        block.free = False
        self.allocated += block.n_bytes
        self.allocated_peak = max(self.allocated_peak, self.allocated)
        return segment, block

    def give_back(self, segment: list[Block], block: Block) -> None:
        block.free = True
        self.allocated -= block.n_bytes
        at = segment.index(block)
        if at + 1 < len(segment) and segment[at + 1].free:
            block.n_bytes += segment.pop(at + 1).n_bytes
        if at and segment[at - 1].free:
            segment[at - 1].n_bytes += segment.pop(at).n_bytes

    def empty_cache(self) -> None:
        for (pool, _), segments in self.segments.items():
            if pool != "graphs":
                self.reserved -= sum(s[0].n_bytes for s in segments if len(s) == 1 and s[0].free)
                segments[:] = [s for s in segments if len(s) > 1 or not s[0].free]

    def inside(self, pool: str, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        before, self.pool = self.pool, pool
        try:
            return step()
        finally:
            self.pool = before


class Allocations(TorchDispatchMode):
    """Passes on what the operations of the block allocate and free."""

    def __init__(self, allocator: Allocator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._allocator, self._known = allocator, weakref.WeakSet[Any]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for storage in (t.untyped_storage() for t in tree_leaves(result) if isinstance(t, torch.Tensor)):
            if storage not in self._known and storage.nbytes():
                self._known.add(storage)
                weakref.finalize(storage, self._allocator.give_back, *self._allocator.take(storage.nbytes()))
        return result


class Recorder:
    """Runs first steps on the recording stream, and recorded ones once, in the graphs' pool, after `empty_cache`."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator

    def warm_up(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        return self._allocator.inside("recording", step)

    def record(self, step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        self._allocator.empty_cache()
        loss = self._allocator.inside("graphs", step)
        return lambda: loss


def test_the_first_evaluation_of_the_starter_has_reserved_what_its_trial_ever_does_and_twice_what_was_allocated() -> (
    None
):
    declared, document = load_sweep(CONFIGS / "sweeps" / "starter.yaml", ["seeds=[0]"])
    spec = next(s for s in expand(declared, document, Lookup(offline=True)) if s.freeze.strategy == "none")
    for batch, epoch, most_allocated in ((16, 25, 0.6), (400, 1, 1.0)):
        allocator, spec = Allocator(), changed(spec, optim={"batch_size": batch})
        dev = encode_for(spec).dev
        with Allocations(allocator):
            training = start(spec, graphs=True)
            training.step_graphs = StepGraphs(lambda allocator=allocator: Recorder(allocator))  # type: ignore[misc]
            course, peaks = FreezeSchedule(spec, training), list[int]()
            for stop in (epoch, 2 * epoch, 3 * epoch):
                course.train_to(stop)
                evaluate(training, dev)
                peaks.append(allocator.peak)
        assert peaks[-1] <= 1.02 * peaks[0]
        assert allocator.allocated_peak <= most_allocated * peaks[0]
