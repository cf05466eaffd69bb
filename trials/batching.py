"""Examples to padded tensors, for training in random order and for evaluation by length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from trials.tasks.task import IGNORE, Example


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded sentences or texts.

    Attributes:
        ids: (examples, subwords) input ids.
        mask: (examples, subwords) 1 where there is a subword; integers, as DeBERTa calculates with it.
        labels: (examples, subwords) label or IGNORE; of texts (examples, 1).
        types: (examples, subwords) which text of a pair a subword belongs to, or None.
        states: (examples, subwords, width) what enters the first layer that learns, in place of the ids, or None.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor
    types: torch.Tensor | None

    states: torch.Tensor | None

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """What a model is called with."""
        if self.states is not None:
            return {"inputs_embeds": self.states, "attention_mask": self.mask}
        types = {} if self.types is None else {"token_type_ids": self.types}
        return {"input_ids": self.ids, "attention_mask": self.mask, **types}

    def logits(self, model: torch.nn.Module) -> torch.Tensor:
        """(examples, subwords, labels) in fp32; of texts (examples, 1, labels)."""
        logits: torch.Tensor = model(**self.inputs).logits.float()
        return logits if logits.dim() == 3 else logits.unsqueeze(1)


def collate(examples: Sequence[Example], pad_id: int, device: torch.device) -> Batch:
    """Pad to the longest of these examples."""
    ids = _padded([example.ids for example in examples], pad_id)
    mask = (np.arange(ids.shape[1]) < np.array([[len(example.ids)] for example in examples])).astype(np.int64)
    labels = _padded([example.labels for example in examples], IGNORE)
    types = [example.types for example in examples if example.types is not None]
    on_device = [torch.from_numpy(array).to(device) for array in (ids, mask, labels)]
    token_types = torch.from_numpy(_padded(types, 0)).to(device) if types else None
    states = [example.states for example in examples if example.states is not None]
    hidden = pad_sequence(states, batch_first=True).to(device) if states else None
    return Batch(on_device[0], on_device[1], on_device[2], token_types, hidden)


def _padded(rows: Sequence[np.ndarray], filler: int) -> np.ndarray:
    padded = np.full((len(rows), max(map(len, rows))), filler, dtype=rows[0].dtype)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded


def shuffled_batches(n: int, batch_size: int, order: np.random.Generator) -> Iterator[np.ndarray]:
    """Index batches, epoch after epoch without end, each epoch in a new order; an epoch's last may be smaller."""
    while True:
        epoch = order.permutation(n)
        yield from (epoch[start : start + batch_size] for start in range(0, n, batch_size))


WINDOW = 16  # batches; EWT is then padded to 1.15 times its subwords, against 2.3 to 2.6 times in random batches


def batches_of_like_length(lengths: Sequence[int], batch_size: int, order: np.random.Generator) -> Iterator[np.ndarray]:
    """The same, but windows of each epoch's random order are sorted by length before they are cut into batches.

    The batches of an epoch come in random order, a smaller one last.
    """
    subwords, window = np.asarray(lengths), WINDOW * batch_size
    while True:
        epoch = order.permutation(len(subwords))
        windows = (epoch[start : start + window] for start in range(0, len(epoch), window))
        ranked = np.concatenate([part[np.argsort(-subwords[part], kind="stable")] for part in windows])
        whole, rest = np.split(ranked, [len(ranked) // batch_size * batch_size])
        yield from order.permutation(whole.reshape(-1, batch_size))
        if len(rest):
            yield rest


def batches_by_length(examples: Sequence[Example], batch_size: int) -> Iterator[list[int]]:
    """Indices of all examples, longest first: little padding, and memory peaks at the first batch."""
    ranked = sorted(range(len(examples)), key=lambda i: -len(examples[i].ids))
    yield from (ranked[start : start + batch_size] for start in range(0, len(ranked), batch_size))
