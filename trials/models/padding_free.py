"""Batches without padding: sentences lie end to end in one row, and attention alone sees where each one ends.

Random batches of UD English-EWT hold 2.1 times as many padded subwords as real ones. Everything in an encoder but its
attention works on each subword by itself, so a row of all sentences costs what its subwords do, and gives the numbers
of the padded batch but for rounding. The attention is a function registered with transformers' `AttentionInterface`;
whether a model really goes through it is tried on a tiny batch when the model is loaded (`lay_end_to_end`).

This is a CPU's way: each sentence is attended to by itself, without mask or padding. A GPU gets padded batches: its
kernels for rows of sentences have wrong gradients with dropout, or are slower (docs/pages/decisions/26.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "permafrost_padding_free"
TOLERANCE = 1e-4  # largest difference of a logit that is rounding, as a share of the largest logit


@dataclass(frozen=True, slots=True)
class Spans:
    """The sentences of a row.

    Attributes:
        lengths: Subwords of each sentence.
        positions: (1, subwords) position ids, which restart at each sentence.
    """

    lengths: tuple[int, ...]
    positions: torch.Tensor

    @classmethod
    def from_lengths(cls, lengths: tuple[int, ...], first_position: int) -> Spans:
        """`first_position` is the position id of a sentence's first subword."""
        positions = np.concatenate([np.arange(first_position, first_position + n) for n in lengths])
        return cls(lengths, torch.from_numpy(positions[None]))

    @property
    def mask(self) -> torch.Tensor:
        """(sentences, longest) 1 where there is a subword, else 0."""
        return (torch.arange(max(self.lengths)) < torch.tensor(self.lengths)[:, None]).long()

    def part(self, start: int, stop: int) -> tuple[Spans, slice]:
        """The sentences from `start` up to, not including, `stop`, and where their subwords are in the row."""
        lengths = self.lengths[start:stop]
        first = sum(self.lengths[:start])
        where = slice(first, first + sum(lengths))
        return Spans(lengths, self.positions[:, where]), where


_current: list[Spans] = []  # the spans of the forward pass that is running; a process trains in one thread


@contextmanager
def attending_within(spans: Spans) -> Iterator[None]:
    """Within the block, models run rows of these sentences."""
    _current.append(spans)
    try:
        yield
    finally:
        _current.pop()


def lay_end_to_end(model: Any, first_position: int, *, pooled: bool) -> bool:
    """Prepare a model for rows of sentences, and try one; whether it gives the logits of the padded batch.

    Outside `attending_within` a prepared model runs as before, and one that fails is left as it was.

    Args:
        model: A model with a head.
        first_position: The position id of a sentence's first subword.
        pooled: Whether the head reads one vector for each text: the encoder's output is padded again for it.
    """
    before = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    base = getattr(model, model.base_model_prefix)
    hooks = [base.register_forward_hook(_padded_output)] if pooled else []
    if pooled and getattr(base, "pooler", None) is not None:
        hooks.append(base.pooler.register_forward_pre_hook(_padded_input))
    if _gives_padded_logits(model, first_position, pooled=pooled):
        return True
    model.set_attn_implementation(before)
    for hook in hooks:
        hook.remove()
    return False


@torch.no_grad()
def _gives_padded_logits(model: Any, first_position: int, *, pooled: bool) -> bool:
    window = max((getattr(m, "sliding_window", None) or 0 for m in model.modules()), default=0)
    lengths = (3, max(9, window + 8), 5)
    pad_id = model.config.pad_token_id
    few = torch.tensor([i for i in range(9) if i != pad_id])
    ids = [few[torch.arange(n) % len(few)] for n in lengths]
    spans, was_training = Spans.from_lengths(lengths, first_position), model.training
    model.eval()
    try:
        padded_ids = pad_sequence(ids, batch_first=True, padding_value=pad_id or 0)
        expected = model(input_ids=padded_ids, attention_mask=spans.mask).logits
        logits = row_logits(model, spans, {"input_ids": torch.cat(ids)[None]}, pooled=pooled)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):  # an architecture that is not made for it
        return False
    finally:
        model.train(was_training)
    if not pooled:
        expected, logits = expected[spans.mask.bool()], logits[0]
    near = TOLERANCE * float(expected.abs().max())
    return logits.shape == expected.shape and bool((logits - expected).abs().max() <= near)


def row_logits(model: Any, spans: Spans, inputs: dict[str, torch.Tensor], *, pooled: bool) -> torch.Tensor:
    """(1, subwords, labels) of a row, or (texts, labels) where the head pools; `inputs` are ids or states."""
    masked = {"attention_mask": spans.mask} if pooled else {}  # some heads take their mean over it
    with attending_within(spans):
        logits: torch.Tensor = model(**inputs, **masked, position_ids=spans.positions).logits
    return logits


def attend(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """(1, heads, subwords, width) of a row of sentences to (1, subwords, heads, width), each sentence by itself.

    Of a padded batch what the library's own attention gives.
    """
    if not _current:
        result: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **others
        )
        return result
    causal = bool(getattr(module, "is_causal", False) if is_causal is None else is_causal)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    return _one_by_one(query, key, value, _current[-1], scaling, dropout, sliding_window or 0, causal), None


def _one_by_one(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
    spans: Spans, scale: float | None, dropout: float, window: int, causal: bool,
) -> torch.Tensor:  # fmt: skip
    if dropout and not window and not causal:
        return _one_by_one_with_dropout(query[0], key[0], value[0], spans, scale, dropout)
    parts = []
    for q, k, v in zip(*(x.split(spans.lengths, dim=2) for x in (query, key, value)), strict=True):
        mask = _band(q.shape[2], window, causal, q.device) if 0 < window < q.shape[2] else None
        is_causal = causal and mask is None
        parts.append(
            scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale, is_causal=is_causal)
        )
    return torch.cat(parts, dim=2).transpose(1, 2)


def _one_by_one_with_dropout(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, spans: Spans, scale: float | None, dropout: float
) -> torch.Tensor:
    """(heads, subwords, width) each. For dropout on a CPU torch's own has no kernel, but three times the calls."""
    query = query * (query.shape[-1] ** -0.5 if scale is None else scale)
    rows = (x.split(spans.lengths, dim=1) for x in (query, key, value))
    parts = [
        torch.bmm(functional.dropout(torch.bmm(q, k.transpose(1, 2)).softmax(dim=-1), dropout), v)
        for q, k, v in zip(*rows, strict=True)
    ]
    return torch.cat(parts, dim=1).transpose(0, 1)[None]


def _band(n: int, window: int, causal: bool, device: torch.device) -> torch.Tensor:
    """(n, n) whether two subwords are fewer than `window` apart, and the second one not after the first if causal."""
    place = torch.arange(n, device=device)
    apart = place[:, None] - place[None]
    return (apart < window) & (apart >= 0 if causal else apart > -window)


def _mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
    """The library's mask; none for a row, whose sentences `attend` keeps apart."""
    mask: torch.Tensor | None = None if _current else sdpa_mask(*args, **kwargs)
    return mask


def _pad(row: torch.Tensor) -> torch.Tensor:
    """(1, subwords, width) of a row to (sentences, longest, width), with zeros at the ends."""
    return pad_sequence(row[0].split(_current[-1].lengths), batch_first=True)


def _padded_output(module: nn.Module, args: Any, output: Any) -> None:
    if _current:
        output.last_hidden_state = _pad(output.last_hidden_state)


def _padded_input(module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return (_pad(args[0]), *args[1:]) if _current else args


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, _mask)
