"""Batches of examples on a device, with as little host work per step as possible.

On a CPU a batch is made from its examples: laid end to end where the model takes rows, else padded. A GPU would wait
for that, so there a split's ids, labels and token types reside on the device as padded matrices, and a batch is a
selection of their rows: each step sends only indices. So do hidden states of a frozen prefix, end to end, where there
is room for them; others stay in their memory-mapped file on the host, and are read and sent one batch ahead, on a
stream of their own, during the previous step. Either way the host never waits for the device.

Both ways give the padded batches of `batching` bit for bit; tests verify that on a CPU. Only a GPU can show that pinned
copies arrive complete and overlap with the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import torch

from trials.tasks.task import IGNORE, Example
from trials.training.batching import Batch, collate, laid_end_to_end, padded_rows
from trials.training.step_rule import RESIDENT_BYTES

Chosen = Sequence[int] | np.ndarray
T = TypeVar("T")


class DeviceLoader:
    """Batches of a non-empty list of examples.

    Attributes:
        resident: Whether ids, labels and token types reside on the device: on a GPU, up to RESIDENT_BYTES.
        state_bytes: Of states that do, too: where all together are no more, and the examples are read `often`.
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
        often: bool = True,
    ) -> None:
        """Batches lie end to end where `first_position` is given, the position id of an example's first subword: on a
        CPU, made from their examples.

        Others are padded to a `multiple` of so many subwords, at most to the longest example.
        """
        assert first_position is None or (not resident and device.type == "cpu"), "only a CPU trains on rows"
        self.examples, self._pad_id, self._device = examples, pad_id, device
        self._first_position = first_position
        self._multiple, self._square_mask = multiple, square_mask
        self._lengths = np.array([len(example.ids) for example in examples])
        self._longest = int(self._lengths.max())
        self._most_labels = max(len(example.labels) for example in examples)
        on_gpu = device.type == "cuda"
        self.resident = on_gpu and self._n_bytes() <= RESIDENT_BYTES if resident is None else resident
        self._matrices = _Matrices(examples, pad_id, device) if self.resident else None
        rows = [example.states for example in examples if example.states is not None]
        n_bytes = sum(row.nbytes for row in rows)
        fits = often and self.resident and self._n_bytes() + n_bytes <= RESIDENT_BYTES
        self._states = _States(rows, device) if rows and fits else None
        self.state_bytes = 0 if self._states is None else n_bytes
        from_host = not self.resident or (rows and self._states is None)
        self._copies = _CopyStream(device) if on_gpu and from_host else None

    def batches(self, order: Iterable[Chosen]) -> Iterator[Batch]:
        """A batch for each group of indices. Copies to a GPU are made one batch ahead."""
        if self._copies is None:
            yield from map(self._batch, order)
        else:
            sent = (self._copies.send(partial(self._batch, chosen)) for chosen in order)
            yield from (self._copies.wait_for(*sending) for sending in prefetch_one(sent))

    def _batch(self, chosen: Chosen) -> Batch:
        if self._first_position is not None:
            return laid_end_to_end([self.examples[i] for i in chosen], self._first_position)
        batch = self._collate(chosen) if self._matrices is None else self._gather(chosen, self._matrices)
        return replace(batch, square=True) if self._square_mask else batch

    def _collate(self, chosen: Chosen) -> Batch:
        examples, width = [self.examples[i] for i in chosen], self._width(chosen)
        widths = (width, min(width, self._most_labels))  # of subwords and labels; a text has one label
        return collate(examples, self._pad_id, torch.device("cpu"), at_least=widths).each(self._send)

    def _gather(self, chosen: Chosen, matrices: _Matrices) -> Batch:
        width, index = self._width(chosen), self._send(torch.as_tensor(chosen))
        states = self._send_states(chosen, width) if self._states is None else self._states.rows(index, width)
        return replace(matrices.rows(index, width), states=states)

    def _send_states(self, chosen: Chosen, width: int) -> torch.Tensor | None:
        """(examples, `width` subwords, width of a state) padded with zeros."""
        rows = [states for i in chosen if (states := self.examples[i].states) is not None]
        if not rows:
            return None
        shape, on_gpu = (len(rows), width, rows[0].shape[1]), self._device.type == "cuda"
        # Padded in the pinned memory itself, from which the device copies while the host goes on.
        padded = torch.empty(shape, dtype=rows[0].dtype, pin_memory=on_gpu)
        for to, row in zip(padded, rows, strict=True):
            to[: len(row)] = row
            to[len(row) :] = 0
        return padded.to(self._device, non_blocking=True)

    def _width(self, chosen: Chosen) -> int:
        longest = int(self._lengths[np.asarray(chosen)].max())
        # A multiple makes few shapes, each of which is recorded as a graph once; no row is longer than the longest.
        return min(-(-longest // self._multiple) * self._multiple, self._longest)

    def _send(self, tensor: torch.Tensor) -> torch.Tensor:
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

    def rows(self, index: torch.Tensor, width: int) -> Batch:
        """The batch of the examples `index` (examples,), cut to `width` subwords; the one label of a text stays."""
        ids, labels = (matrix[:, :width].index_select(0, index) for matrix in (self._ids, self._labels))
        mask = (self._positions[:width] < self._lengths.index_select(0, index)).long()
        types = None if self._types is None else self._types[:, :width].index_select(0, index)
        return Batch(ids, mask, labels, types, None)


class _States:
    """States of all examples on a device, (subwords of all and a row of zeros, width of a state)."""

    def __init__(self, rows: Sequence[torch.Tensor], device: torch.device) -> None:
        self._rows = torch.cat([*rows, torch.zeros_like(rows[0][:1])]).to(device)
        lengths = torch.tensor([len(row) for row in rows], device=device)
        self._starts, self._ends = lengths.cumsum(0) - lengths, lengths.cumsum(0)
        self._positions = torch.arange(int(max(map(len, rows))), device=device)

    def rows(self, index: torch.Tensor, width: int) -> torch.Tensor:
        """(examples, `width` subwords, state width) states of the examples `index` (examples,), padded with zeros."""
        places = self._starts.index_select(0, index)[:, None] + self._positions[:width]
        ends = self._ends.index_select(0, index)[:, None]
        places = torch.where(places < ends, places, len(self._rows) - 1)
        rows: torch.Tensor = self._rows.index_select(0, places.flatten()).unflatten(0, places.shape)
        return rows


class _CopyStream:
    """A CUDA stream on which batches are copied while the previous step computes."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, torch.cuda.Stream(device)
        self._stream.wait_stream(torch.cuda.current_stream(device))  # on which what a batch is made from was made

    def send(self, make: Callable[[], Batch]) -> tuple[Batch, torch.cuda.Event]:
        """A batch whose copy has been started, and the event of its arrival."""
        with torch.cuda.stream(self._stream):
            batch = make()
            return batch, self._stream.record_event()

    def wait_for(self, batch: Batch, event: torch.cuda.Event) -> Batch:
        """The batch, usable on the computing stream: the device waits for the copy, the host does not."""
        computing = torch.cuda.current_stream(self._device)
        computing.wait_event(event)
        for tensor in batch.tensors:
            tensor.record_stream(computing)  # else its memory could be reused once the copying stream is done
        return batch


def prefetch_one(items: Iterable[T]) -> Iterator[T]:
    """The items, each fetched before the previous one is yielded."""
    waiting: list[T] = []
    for item in items:
        waiting.append(item)
        if len(waiting) == 2:
            yield waiting.pop(0)
    yield from waiting
