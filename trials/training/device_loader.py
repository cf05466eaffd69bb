"""Batches on a device with as little host work per step as possible; on a GPU, the training step as CUDA graphs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import nn

from trials.models.padding_free import Spans
from trials.tasks.task import IGNORE, Example
from trials.training.batching import Batch, collate, laid_end_to_end, padded_rows, takes_square_mask

# Batches of examples on a device, with as little host work per step as possible.
#
# On a CPU a batch is made from its examples. A GPU would wait for that, so there a split's ids, labels and token types
# reside on the device as padded matrices, and a batch is a selection of their rows, or of their subwords if it lies end
# to end: each step sends only indices. Hidden states of a frozen prefix stay in their memory-mapped file on the host;
# they are read and sent one batch ahead, on a stream of their own, during the previous step. Either way the host never
# waits for the device.
#
# Both ways give the batches of `batching` bit for bit; tests verify that on a CPU. Only a GPU can show that pinned
# copies arrive complete and overlap with the steps.

RESIDENT_BYTES = 1 << 30  # of one split on a GPU: half a million sentences of 128 subwords
Chosen = Sequence[int] | np.ndarray
T = TypeVar("T")


class DeviceLoader:
    """Batches of a non-empty list of examples.

    Attributes:
        resident: Whether ids, labels and token types reside on the device: on a GPU, up to RESIDENT_BYTES.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        pad_id: int,
        device: torch.device,
        *,
        first_position: int | None = None,
        multiple: int = 1,
        square_mask: bool = False,
        resident: bool | None = None,
    ) -> None:
        """Batches lie end to end where `first_position` is given, the position id of an example's first subword.

        Others are padded to a `multiple` of so many subwords, at most to the longest example.
        """
        self.examples, self._pad_id, self._device = examples, pad_id, device
        self._first_position = first_position
        self._multiple, self._square_mask = multiple, square_mask
        self._lengths = np.array([len(example.ids) for example in examples])
        self._longest = int(self._lengths.max())
        self._most_labels = max(len(example.labels) for example in examples)
        on_gpu = device.type == "cuda"
        self.resident = on_gpu and self._n_bytes() <= RESIDENT_BYTES if resident is None else resident
        self._matrices = _Matrices(examples, pad_id, device) if self.resident else None
        from_host = not self.resident or examples[0].states is not None
        self._copies = _CopyStream(device) if on_gpu and from_host else None

    def batches(self, order: Iterable[Chosen]) -> Iterator[Batch]:
        """A batch for each group of indices. Copies to a GPU are made one batch ahead."""
        if self._copies is None:
            yield from map(self._batch, order)
        else:
            sent = (self._copies.send(partial(self._batch, chosen)) for chosen in order)
            yield from (self._copies.arrived(*sending) for sending in one_ahead(sent))

    def _batch(self, chosen: Chosen) -> Batch:
        if self._first_position is not None:
            return self._row(chosen, self._first_position)
        batch = self._collated(chosen) if self._matrices is None else self._gathered(chosen, self._matrices)
        return replace(batch, square=True) if self._square_mask else batch

    def _row(self, chosen: Chosen, first_position: int) -> Batch:
        if self._matrices is None:
            return laid_end_to_end([self.examples[i] for i in chosen], first_position).each(self._sent)
        lengths, states = self._lengths[np.asarray(chosen)], [self.examples[i].states for i in chosen]
        batch = self._matrices.row(
            self._sent(torch.as_tensor(chosen)), self._sent(self._matrices.places(chosen, lengths))
        )
        spans = Spans.of(tuple(lengths.tolist()), first_position).each(self._sent)
        cached = [state for state in states if state is not None]
        return replace(batch, spans=spans, states=self._sent(torch.cat(cached)[None]) if cached else None)

    def _collated(self, chosen: Chosen) -> Batch:
        examples, width = [self.examples[i] for i in chosen], self._width(chosen)
        widths = (width, min(width, self._most_labels))  # of subwords and labels; a text has one label
        return collate(examples, self._pad_id, torch.device("cpu"), at_least=widths).each(self._sent)

    def _gathered(self, chosen: Chosen, matrices: _Matrices) -> Batch:
        width = self._width(chosen)
        batch = matrices.rows(self._sent(torch.as_tensor(chosen)), width)
        return replace(batch, states=self._states(chosen, width))

    def _states(self, chosen: Chosen, width: int) -> torch.Tensor | None:
        """(examples, `width` subwords, width of a state) padded with zeros."""
        rows = [states for i in chosen if (states := self.examples[i].states) is not None]
        if not rows:
            return None
        shape, on_gpu = (len(rows), width, rows[0].shape[1]), self._device.type == "cuda"
        padded = torch.empty(shape, dtype=rows[0].dtype, pin_memory=on_gpu)
        for to, row in zip(padded, rows, strict=True):
            to[: len(row)] = row
            to[len(row) :] = 0
        return padded.to(self._device, non_blocking=True)

    def _width(self, chosen: Chosen) -> int:
        longest = int(self._lengths[np.asarray(chosen)].max())
        return min(-(-longest // self._multiple) * self._multiple, self._longest)

    def _sent(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor on the device. The pinned copy may be dropped: torch holds its memory until it has been read."""
        if self._device.type != "cuda":
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)

    def _n_bytes(self) -> int:
        """Size of the resident matrices."""
        per_subword = 1 if self.examples[0].types is None else 2
        return 8 * len(self.examples) * (per_subword * self._longest + self._most_labels)


class _Matrices:
    """Ids, labels and token types of all examples on a device, (examples, subwords of the longest) each."""

    def __init__(self, examples: Sequence[Example], pad_id: int, device: torch.device) -> None:
        types = [example.types for example in examples if example.types is not None]
        self._ids = torch.from_numpy(padded_rows([e.ids for e in examples], pad_id)).to(device)
        self._labels = torch.from_numpy(padded_rows([e.labels for e in examples], IGNORE)).to(device)
        self._types = torch.from_numpy(padded_rows(types, 0)).to(device) if types else None
        self._lengths = torch.tensor([[len(e.ids)] for e in examples], device=device)  # (examples, 1)
        self._width = self._ids.shape[1]
        self._positions = torch.arange(self._width, device=device)

    def places(self, chosen: Chosen, lengths: np.ndarray) -> torch.Tensor:
        """(subwords of all chosen examples,) where they are in the flattened matrices; on the host."""
        before = np.repeat(np.cumsum(lengths) - lengths, lengths)  # subwords of the examples before a subword's own
        rows = np.repeat(np.asarray(chosen, np.int64) * self._width, lengths)
        return torch.from_numpy(rows + np.arange(len(rows)) - before)

    def row(self, index: torch.Tensor, places: torch.Tensor) -> Batch:
        """The examples of these rows end to end, without spans and states."""
        ids, types = (None if m is None else m.flatten()[places][None] for m in (self._ids, self._types))
        assert ids is not None
        has_label_a_subword = self._labels.shape == self._ids.shape
        labels = self._labels.flatten()[places][None] if has_label_a_subword else self._labels.index_select(0, index)
        return Batch(ids, None, labels, types, None)

    def rows(self, index: torch.Tensor, width: int) -> Batch:
        """The batch of these examples, cut to `width` subwords; the one label of a text stays."""
        ids, labels = (matrix[:, :width].index_select(0, index) for matrix in (self._ids, self._labels))
        mask = (self._positions[:width] < self._lengths.index_select(0, index)).long()
        types = None if self._types is None else self._types[:, :width].index_select(0, index)
        return Batch(ids, mask, labels, types, None)


class _CopyStream:
    """A CUDA stream on which batches are copied while the previous step computes."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, torch.cuda.Stream(device)

    def send(self, make: Callable[[], Batch]) -> tuple[Batch, torch.cuda.Event]:
        """A batch whose copy has been started, and the event of its arrival."""
        with torch.cuda.stream(self._stream):
            batch = make()
            return batch, self._stream.record_event()

    def arrived(self, batch: Batch, event: torch.cuda.Event) -> Batch:
        """The batch, usable on the computing stream: the device waits for the copy, the host does not."""
        computing = torch.cuda.current_stream(self._device)
        computing.wait_event(event)
        for tensor in batch.tensors:
            tensor.record_stream(computing)  # else its memory could be reused once the copying stream is done
        return batch


def one_ahead(items: Iterable[T]) -> Iterator[T]:
    """The items, each fetched before the previous one is yielded."""
    waiting: list[T] = []
    for item in items:
        waiting.append(item)
        if len(waiting) == 2:
            yield waiting.pop(0)
    yield from waiting


# The training step as CUDA graphs, one for each shape of a batch: a few kernel launches instead of a thousand.
#
# A small model's step takes less time on a GPU than Python needs to launch its kernels one by one. A graph holds all
# kernels of a step, and one call launches them. The environment variable PERMAFROST_CUDA_GRAPHS=1 turns graphs on; they
# have not been measured on a GPU, so they are off by default. The tests cover everything but `CudaGraphRecorder`, on a
# CPU.
#
# A recorded step reads its batch from buffers at fixed addresses and the learning rate from tensors that are filled
# outside; no gradient outlives it; the host never waits in it. Loss scaling (fp16) and models that inspect their mask
# on the host (see `trials.training.batching.takes_square_mask`) are trained without graphs.

GRAPHS_VARIABLE = "PERMAFROST_CUDA_GRAPHS"
LENGTHS = 16  # batches are padded to a multiple of so many subwords, so that few shapes occur

Step = Callable[[Batch], torch.Tensor]  # trains on a batch and returns its loss


def graphs_wanted(model: nn.Module, device: torch.device, *, scaled: bool) -> bool:
    """Whether the environment turns graphs on and device, precision and model allow them."""
    asked = os.environ.get(GRAPHS_VARIABLE) == "1"
    return asked and device.type == "cuda" and not scaled and takes_square_mask(model)


def model_state(model: nn.Module) -> tuple[tuple[bool, ...], ...]:
    """What a recorded step depends on: which parameters are trained, and which modules are in training mode."""
    return tuple(p.requires_grad for p in model.parameters()), tuple(m.training for m in model.modules())


class GraphRecorder(Protocol):
    """Records the device work of a function, to be replayed."""

    def warm_up(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Run a step on the recording stream without recording it, so that lazy initialisation is done."""
        ...

    def record(self, step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Record a step without running it; return a function that replays it and returns the same output tensor."""
        ...


class StepGraphs:
    """Steps of one training: of each shape the first is run, the second recorded, and later ones are replayed."""

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
        self._replay = recorder.record(partial(step, self._batch))

    def replay(self, batch: Batch) -> torch.Tensor:
        """Train on a batch of the same shape and return its loss."""
        for buffer, tensor in zip(self._batch.tensors, batch.tensors, strict=True):
            buffer.copy_(tensor)
        return self._replay().clone()  # the next replay, of this graph or another, writes over it


class CudaGraphRecorder:
    """Records CUDA graphs that share a memory pool: they never run concurrently, and none reads another's memory."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def warm_up(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Run a step on the recording stream, in order with the work of the computing stream."""
        computing = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(computing)
        with torch.cuda.stream(self._stream):
            loss = step()
        computing.wait_stream(self._stream)
        return loss

    def record(self, step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Record a step; the host waits once for the device."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            loss = step()

        def replay() -> torch.Tensor:
            graph.replay()
            return loss

        return replay
