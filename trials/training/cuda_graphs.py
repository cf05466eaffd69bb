"""The training step as CUDA graphs, one for every shape of a batch: a few launches instead of a thousand.

A small model's step is shorter on a GPU than the time it takes Python to start its kernels one by one. A graph holds
all kernels of a step, and one call starts them. PERMAFROST_CUDA_GRAPHS=1 in the environment asks for it. It is
unmeasured on a GPU so far, therefore off by default: the tests drive all of this but `CudaRecorder`, on a CPU.

What holds within a recorded step: it reads its batch from buffers that stay where they are, and the learning rate from
tensors that are filled outside; no gradient outlives it; it never makes the host wait. Loss scaling (fp16) and models
that look at their mask on the host (see `trials.training.batching.takes_square_mask`) are trained without graphs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import nn

from trials.training.batching import Batch, takes_square_mask

GRAPHS_VARIABLE = "PERMAFROST_CUDA_GRAPHS"
LENGTHS = 16  # batches are padded to a multiple of so many subwords, so that few shapes make up nearly all batches

Step = Callable[[Batch], torch.Tensor]  # trains on a batch and returns its loss


def graphs_wanted(model: nn.Module, device: torch.device, *, scaled: bool) -> bool:
    """Whether the environment asks for graphs, and device, precision and model allow them."""
    asked = os.environ.get(GRAPHS_VARIABLE) == "1"
    return asked and device.type == "cuda" and not scaled and takes_square_mask(model)


def model_state(model: nn.Module) -> tuple[tuple[bool, ...], ...]:
    """What a recorded step takes for granted: which parameters learn, and which modules drop out."""
    return tuple(p.requires_grad for p in model.parameters()), tuple(m.training for m in model.modules())


class Recorder(Protocol):
    """Records what a function does to the device."""

    def warm_up(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Run a step as it is, where steps are recorded: what is set up at a first use is set up then."""
        ...

    def record(self, step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """What does the same as the step whenever it is called, into the same result. The step itself is not run."""
        ...


class StepGraphs:
    """Steps of one training: the first of each shape is run, the second recorded, and from then on replayed."""

    def __init__(self, new_recorder: Callable[[], Recorder]) -> None:
        self._new_recorder = new_recorder
        self._state: object = None
        self._drop()

    def stepper(self, step: Step, state: object) -> Step:
        """A step for a model in this state; what was recorded in another state is thrown away.

        The step is not kept, as it holds the training, and the training this.
        """
        if state != self._state:
            self._drop()
            self._state = state
        return partial(self._take, step)

    def _drop(self) -> None:
        # Their memory is free at once. No replay is under way then: `train_steps` ends by reading its losses.
        self._recorder: Recorder | None = None
        self._seen: set[object] = set()
        self._graphs: dict[object, _Graph] = {}

    def _take(self, step: Step, batch: Batch) -> torch.Tensor:
        # A recorder a state: the memory pool that graphs share cannot be used again once all of them are gone.
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

    def __init__(self, recorder: Recorder, step: Step, like: Batch) -> None:
        self._batch = like.each(torch.clone)
        self._replay = recorder.record(partial(step, self._batch))

    def replay(self, batch: Batch) -> torch.Tensor:
        """Train on a batch of the same shape and return its loss."""
        for buffer, tensor in zip(self._batch.tensors, batch.tensors, strict=True):
            buffer.copy_(tensor)
        return self._replay().clone()  # the next replay, of this graph or another, writes over it


class CudaRecorder:
    """Records CUDA graphs that share their memory: they never run at the same time, and none reads another's."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def warm_up(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        """On the stream that records, after all that came before and before all that follows."""
        computing = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(computing)
        with torch.cuda.stream(self._stream):
            loss = step()
        computing.wait_stream(self._stream)
        return loss

    def record(self, step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """A graph of the step, which waits once for the device."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            loss = step()

        def replay() -> torch.Tensor:
            graph.replay()
            return loss

        return replay
