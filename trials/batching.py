"""Examples to padded tensors, for training in random order and for evaluation by length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from trials.tasks.task import IGNORE, Example


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded sentences.

    Attributes:
        ids: (sentences, subwords) input ids.
        mask: (sentences, subwords) True where there is a subword.
        labels: (sentences, subwords) label or IGNORE.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor


def collate(examples: Sequence[Example], pad_id: int, device: torch.device) -> Batch:
    """Pad to the longest of these examples."""
    shape = (len(examples), max(len(example.ids) for example in examples))
    ids, mask = np.full(shape, pad_id, dtype=np.int64), np.zeros(shape, dtype=bool)
    labels = np.full(shape, IGNORE, dtype=np.int64)
    for row, example in enumerate(examples):
        n = len(example.ids)
        ids[row, :n], mask[row, :n], labels[row, :n] = example.ids, True, example.labels
    return Batch(*(torch.from_numpy(array).to(device) for array in (ids, mask, labels)))


def shuffled_batches(n: int, batch_size: int, order: np.random.Generator) -> Iterator[np.ndarray]:
    """Index batches, epoch after epoch without end, each epoch in a new order; an epoch's last may be smaller."""
    while True:
        epoch = order.permutation(n)
        yield from (epoch[start : start + batch_size] for start in range(0, n, batch_size))


def batches_by_length(examples: Sequence[Example], batch_size: int) -> Iterator[list[Example]]:
    """All examples, longest first: little padding, and memory peaks at the first batch."""
    ranked = sorted(examples, key=lambda example: -len(example.ids))
    yield from (ranked[start : start + batch_size] for start in range(0, len(ranked), batch_size))
