"""The training step as CUDA graphs, one for each shape of a batch: a few kernel launches instead of a thousand.

A small model's step takes less time on a GPU than Python needs to launch its kernels one by one: on an H200 a step of
the starter model took 13.1 ms, and 3.9 ms as a graph. A graph holds all kernels of a step, and one call launches them.
Graphs are on wherever a model's step can be recorded; the environment variable PERMAFROST_CUDA_GRAPHS=0 turns them off.
Tests cover everything but `CudaGraphRecorder` on a CPU.

A recorded step reads its batch from buffers at fixed addresses and the learning rate from tensors that are filled
outside; no gradient outlives it; the host never waits in it, not even in fp16 (Micikevicius et al. 2018), as a fused
optimiser reads the scale of the loss, and whether a gradient overflowed, on the device. Models that inspect their mask
on the host (see `trials.training.batching.takes_square_mask`) are trained without graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import nn

from trials.errors import RecordingError, is_out_of_memory, reason
from trials.training.batching import Batch

Step = Callable[[Batch], torch.Tensor]  # trains on a batch and returns its loss


def model_state(model: nn.Module) -> tuple[tuple[bool, ...], ...]:
    """What a recorded step depends on: which parameters are trained, and which modules are in training mode."""
    return tuple(p.requires_grad for p in model.parameters()), tuple(m.training for m in model.modules())


class GraphRecorder(Protocol):
    """Records the device work of a function, to be replayed."""

    def warm_up(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Run a step, which returns its scalar loss, without recording it, so that lazy initialisation is done."""
        ...

    def record(self, step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Record a step without running it; return a function that replays it and returns the same scalar tensor."""
        ...


class StepGraphs:
    """Recorded steps of a training: of each batch shape the first is run, the second recorded, later ones replayed."""

    def __init__(self, new_recorder: Callable[[], GraphRecorder]) -> None:
        self._new_recorder = new_recorder
        self._state: object = None
        self._drop()

    def stepper(self, step: Step, state: object) -> Step:
        """A step for a model in this state; graphs that were recorded in another state are discarded.

        The step is not stored: it references the training, and the training references this object.
        """
        if state != self._state:
            self._drop()
            self._state = state
        return partial(self._take, step)

    def _drop(self) -> None:
        # All of them, and only here: in torch 2.13 destroying a graph frees its stream's cuBLAS workspaces, which other
        # graphs of that stream would go on reading (pytorch #193402).
        # Their memory is free at once. No replay is running: `train_steps` ends by reading its losses.
        self._recorder: GraphRecorder | None = None
        self._seen: set[object] = set()
        self._graphs: dict[object, _Graph] = {}

    def _take(self, step: Step, batch: Batch) -> torch.Tensor:
        # One recorder per state: the graphs' memory pool cannot be reused once all of them are gone.
        recorder = self._recorder = self._recorder or self._new_recorder()
        shape = tuple((tensor.shape, tensor.dtype) for tensor in batch.tensors)
        if shape not in self._seen:
            self._seen.add(shape)
            return recorder.warm_up(partial(step, batch))
        if shape not in self._graphs:
            self._graphs[shape] = _Graph(recorder, step, batch)
        return self._graphs[shape].replay(batch)


class _Graph:
    """A recorded step and the buffers that it reads its batch from."""

    def __init__(self, recorder: GraphRecorder, step: Step, like: Batch) -> None:
        self._batch = like.each(torch.clone)
        try:
            self._replay = recorder.record(partial(step, self._batch))
        except RuntimeError as error:
            if is_out_of_memory(error):  # a capture ends well then
                raise
            raise RecordingError(f"CUDA error: a training step cannot be recorded ({reason(error)})") from error

    def replay(self, batch: Batch) -> torch.Tensor:
        """Train on a batch of the same shape and return its mean loss ()."""
        for buffer, tensor in zip(self._batch.tensors, batch.tensors, strict=True):
            buffer.copy_(tensor)
        return self._replay().clone()  # the next replay, of this graph or another, writes over it


class CudaGraphRecorder:
    """Records CUDA graphs that share a memory pool: they never run concurrently, and none reads another's memory."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def warm_up(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Run a step on the recording stream, after the work of the computing stream; returns its scalar loss."""
        computing = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(computing)
        with torch.cuda.stream(self._stream):
            loss = step()
        computing.wait_stream(self._stream)
        return loss

    def record(self, step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Record a step and its scalar loss; the host waits once for the device."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            loss = step()

        def replay() -> torch.Tensor:
            graph.replay()
            return loss

        return replay
