"""Batches: rows of sentences laid end to end, or padded; random for training, ordered by length for evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np
import torch
from torch import nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from trials.models.family import MODEL_FAMILIES
from trials.models.padding_free import Spans, row_logits
from trials.seeding import numpy_stream
from trials.spec import TrialSpec
from trials.tasks.task import IGNORE, Example
from trials.training.step_rule import LENGTH_WINDOW


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences or texts, padded or laid end to end.

    Attributes:
        ids: (examples, subwords) input ids; end to end (1, subwords of all examples), and so are the other tensors.
        mask: (examples, subwords) 1 where there is a subword, else 0; integers, as DeBERTa computes with it. None if
            the examples lie end to end.
        labels: (examples, subwords) label or IGNORE; of texts always (examples, 1).
        types: (examples, subwords) which text of a pair a subword belongs to, or None.
        states: (examples, subwords, width) input of the first trained layer, in place of the ids, or None.
        spans: Where the examples lie in the row; None if they are padded.
        square: Whether the model is given `square_mask` of the mask; see `takes_square_mask`.
    """

    ids: torch.Tensor
    mask: torch.Tensor | None
    labels: torch.Tensor
    types: torch.Tensor | None
    states: torch.Tensor | None
    spans: Spans | None = None
    square: bool = False

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """The arguments of the model's forward pass by name, (examples, subwords); not the positions of a row."""
        given = {"inputs_embeds": self.states} if self.states is not None else {"input_ids": self.ids}
        if self.mask is not None:
            given["attention_mask"] = square_mask(self.mask) if self.square else self.mask
        if self.types is not None and self.states is None:
            given["token_type_ids"] = self.types
        return given

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors (examples, ...) other than None, in the order of the attributes; not the positions of a row."""
        return [t for t in (self.ids, self.mask, self.labels, self.types, self.states) if t is not None]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Subwords that the model computes for each example, padding included."""
        return self.spans.lengths if self.spans is not None else (self.ids.shape[1],) * len(self.ids)

    @property
    def starts(self) -> np.ndarray:
        """(examples,) index of each example's first label among all labels of the batch."""
        if self.spans is not None and self._has_label_a_subword:
            return np.cumsum((0, *self.spans.lengths[:-1]))
        return np.arange(len(self.labels)) * self.labels.shape[1]

    @property
    def _has_label_a_subword(self) -> bool:
        return self.labels.shape[1] == self.ids.shape[1]

    def parts(self, n: int) -> Iterator[Batch]:
        """The examples in about `n` parts, padded as the whole batch is."""
        n_examples = len(self.lengths)
        size = -(-n_examples // n)
        for start in range(0, n_examples, size):
            rows = slice(start, start + size)
            yield self.each(itemgetter(rows)) if self.spans is None else self._part(self.spans, rows)

    def _part(self, whole: Spans, rows: slice) -> Batch:
        spans, where = whole.part(rows.start, min(rows.stop, len(whole.lengths)))
        part = replace(self, spans=None).each(itemgetter((slice(None), where)))
        labels = part.labels if self._has_label_a_subword else self.labels[rows]
        return replace(part, labels=labels, spans=spans)

    def each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
        """The batch with a function applied to each of `tensors` (examples, ...)."""
        mask, types, states = (None if t is None else change(t) for t in (self.mask, self.types, self.states))
        return replace(self, ids=change(self.ids), mask=mask, labels=change(self.labels), types=types, states=states)

    def logits(self, model: torch.nn.Module) -> torch.Tensor:
        """(examples, subwords, labels) in fp32, or (1, subwords, labels) end to end; of texts (examples, 1, labels)."""
        if self.spans is None:
            logits: torch.Tensor = model(**self.inputs).logits.float()
        else:
            logits = row_logits(model, self.spans, self.inputs, pooled=not self._has_label_a_subword).float()
        return logits if logits.dim() == 3 else logits.unsqueeze(1)


def takes_square_mask(model: nn.Module) -> bool:
    """Whether a model accepts a boolean mask of (examples, 1, subwords, subwords).

    The library derives the same one from a mask of (examples, subwords), but first checks whether anything is masked,
    and for that check the host waits for all work queued on the GPU.
    """
    config = getattr(model, "config", None)
    family = str(getattr(config, "model_type", ""))
    supported = family in MODEL_FAMILIES and MODEL_FAMILIES[family].square_mask
    return supported and getattr(config, "_attn_implementation", None) == "sdpa"  # others add a mask of floats


def square_mask(mask: torch.Tensor) -> torch.Tensor:
    """(examples, 1, subwords, subwords), true where there is a subword to attend to; a view, as in `transformers`."""
    n_examples, n_subwords = mask.shape
    return mask.bool()[:, None, None, :].expand(n_examples, 1, n_subwords, n_subwords)


def collate(
    examples: Sequence[Example], pad_id: int, device: torch.device, *, at_least: tuple[int, int] = (0, 0)
) -> Batch:
    """Pad examples to the longest of them, and to at least `at_least` subwords and labels."""
    ids = padded_rows([example.ids for example in examples], pad_id, at_least[0])
    # By length, not by the filler: a tokenizer may use the same id for padding and for a word.
    mask = (np.arange(ids.shape[1]) < np.array([[len(example.ids)] for example in examples])).astype(np.int64)
    labels = padded_rows([example.labels for example in examples], IGNORE, at_least[1])
    types = [example.types for example in examples if example.types is not None]
    on_device = [torch.from_numpy(array).to(device) for array in (ids, mask, labels)]
    token_types = torch.from_numpy(padded_rows(types, 0, at_least[0])).to(device) if types else None
    states = [example.states for example in examples if example.states is not None]
    hidden = pad_sequence(states, batch_first=True) if states else None
    if hidden is not None and hidden.shape[1] < at_least[0]:
        hidden = pad(hidden, (0, 0, 0, at_least[0] - hidden.shape[1]))
    return Batch(
        on_device[0], on_device[1], on_device[2], token_types, hidden.to(device) if hidden is not None else None
    )


def laid_end_to_end(examples: Sequence[Example], first_position: int) -> Batch:
    """One row of examples on the CPU; `first_position` is the position id of an example's first subword."""
    types = [example.types for example in examples if example.types is not None]
    states = [example.states for example in examples if example.states is not None]
    ids, labels = (np.concatenate(rows) for rows in ([e.ids for e in examples], [e.labels for e in examples]))
    return Batch(
        ids=torch.from_numpy(ids[None]),
        mask=None,
        labels=torch.from_numpy(labels[None] if len(labels) == len(ids) else labels[:, None]),
        types=torch.from_numpy(np.concatenate(types)[None]) if types else None,
        states=torch.cat(states)[None] if states else None,
        spans=Spans.from_lengths(tuple(len(example.ids) for example in examples), first_position),
    )


def padded_rows(rows: Sequence[np.ndarray], filler: int, at_least: int = 0) -> np.ndarray:
    """(rows, longest), the longest at least `at_least`, each row padded with the filler at its end."""
    padded = np.full((len(rows), max(at_least, max(map(len, rows)))), filler, dtype=rows[0].dtype)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded


def batches_of(spec: TrialSpec, examples: Sequence[Example]) -> Iterator[np.ndarray]:
    """Endless batches of indices (examples,) into train, in the order that the trial's seed gives."""
    order = numpy_stream(spec.seeds.order, "order")
    if spec.batching == "length":
        return batches_of_like_length([len(e.ids) for e in examples], spec.optim.batch_size, order)
    return shuffled_batches(len(examples), spec.optim.batch_size, order)


def shuffled_batches(n: int, batch_size: int, order: np.random.Generator) -> Iterator[np.ndarray]:
    """Endless batches of indices (examples,), each epoch in a new random order; an epoch's last may be smaller."""
    while True:
        epoch = order.permutation(n)
        yield from (epoch[start : start + batch_size] for start in range(0, n, batch_size))


def batches_of_like_length(lengths: Sequence[int], batch_size: int, order: np.random.Generator) -> Iterator[np.ndarray]:
    """Endless batches of indices (examples,) of like length: windows of an epoch's order are sorted by it first.

    The batches of an epoch come in random order, a smaller one last.
    """
    subwords, window = np.asarray(lengths), LENGTH_WINDOW * batch_size
    while True:
        epoch = order.permutation(len(subwords))
        windows = (epoch[start : start + window] for start in range(0, len(epoch), window))
        ranked = np.concatenate([part[np.argsort(-subwords[part], kind="stable")] for part in windows])
        whole, rest = np.split(ranked, [len(ranked) // batch_size * batch_size])
        yield from order.permutation(whole.reshape(-1, batch_size))
        if len(rest):
            yield rest


def batches_by_length(examples: Sequence[Example], batch_size: int) -> Iterator[list[int]]:
    """Batches of the indices of all examples, longest first: little padding, and memory peaks at the first batch."""
    ranked = sorted(range(len(examples)), key=lambda i: -len(examples[i].ids))
    yield from (ranked[start : start + batch_size] for start in range(0, len(ranked), batch_size))
