"""Rehearse a trial of a model: its head and tokenizer, and a training step of a small random copy of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase

from trials.datasets.corpus import Item, Sentence, Text
from trials.errors import ModelError, reason
from trials.model_checks.small_config import small_config
from trials.model_checks.weights_fit import check_weights
from trials.models.family import Head, ModelFamily, Parts, pool_at_last_subword
from trials.models.load import (
    family_of,
    has_token_types,
    head_class,
    head_config,
    load_tokenizer,
    read_tokenizer,
)
from trials.settings import ModelSpec
from trials.tasks import TASKS
from trials.tasks.task import IGNORE, Encoding, Example
from trials.training.batching import collate

MOST_PARAMETERS = 40_000_000  # of the small copy: 160 MB, and as much for gradients
N_LABELS = 3
MAX_LENGTH = 24
LONGEST = 512  # of the long items; positions of encoders that count them in a table
LABELS = ("A", "B", "C")
_ITEMS: dict[str, list[Item]] = {  # a long one, and two short ones
    "sentences": [
        Sentence(("way",) * LONGEST, ("A",) * LONGEST),
        Sentence(("Nothing", "is", "lost", "on", "the", "way", "."), ("A", "B", "C", "A", "B", "C", "A")),
        Sentence(("I",), ("B",)),
    ],
    "texts": [
        Text("way " * LONGEST, None, "A"), Text("Nothing is lost on the way.", None, "A"), Text("I", None, "B"),
    ],
    "pairs of texts": [
        Text("way " * LONGEST, "It is found.", "A"), Text("Nothing is lost on the way.", "It is found.", "A"),
        Text("I", "You", "B"),
    ],
}  # fmt: skip


def rehearse(spec: ModelSpec, head: Head, *, pairs: bool = False) -> tuple[str, ...]:
    """Sentences about the model that the user should read.

    Args:
        pairs: Whether the texts of the task are pairs.

    Raises:
        ModelError: a trial of it would fail; says why in one line.
    """
    try:
        config = head_config(spec, head, N_LABELS, None)
    except ModelError:
        raise
    except Exception as error:  # the architecture's own code may raise anything
        raise ModelError(f"{spec.path}: its config.json cannot be used ({reason(error)}).") from error
    if head_class(head, config) is None:
        what = "tags words" if head == "tokens" else "classifies texts"
        raise ModelError(f"{spec.path}: transformers has no head that {what} for {spec.family!r}. Use another model.")
    with torch.random.fork_rng(devices=[]):
        check_weights(spec, head, config)
        with _panics_caught(spec):
            tokenizer, notes = _tokenizer(spec, head)
            _check_subwords(spec, tokenizer, config)
            batches = _batches(spec, head, tokenizer, pairs=pairs)
        with torch.inference_mode(False), torch.enable_grad():  # a caller may have switched gradients off
            _train_step(spec, head, config, batches)
    return notes


_SOME_CAPITALS = 0.01  # of the words of a vocabulary that tells capitals from small letters


@contextmanager
def _panics_caught(spec: ModelSpec) -> Iterator[None]:
    """Turn a panic of the tokenizers library into a ModelError; it is no Exception, and prints a backtrace of Rust."""
    stderr = os.dup(2)
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ModelError(
            f"{spec.path}: its tokenizer.json contradicts itself ({reason(error)}). Save it again."
        ) from error
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _tokenizer(spec: ModelSpec, head: Head) -> tuple[PreTrainedTokenizerBase, tuple[str, ...]]:
    has_padding = read_tokenizer(spec, head).pad_token_id is not None
    tokenizer = load_tokenizer(spec, head)
    notes = []
    if not has_padding:
        stands_in = f"{tokenizer.pad_token!r} stands in for it, which no subword attends to"
        notes.append(f"its tokenizer has no padding token; {stands_in}.")
    if _loses_capitals(tokenizer):
        notes.append(
            "its vocabulary has capital letters, but its tokenizer lower-cases. If the model is cased, say "
            '`"do_lower_case": false` in tokenizer_config.json.'
        )
    return tokenizer, tuple(notes)


def _loses_capitals(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a tokenizer lower-cases what its vocabulary has with capital letters."""
    normalizer = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
    if normalizer is None or "A" in normalizer.normalize_str("A") or "a" not in normalizer.normalize_str("A"):
        return False
    special = {*tokenizer.all_special_tokens, *(token.content for token in tokenizer.added_tokens_decoder.values())}
    words = [word for word in tokenizer.get_vocab() if word not in special and re.search("[A-Za-z]", word)]
    n_capitals = sum(str(word) != str(word).lower() for word in words)
    return n_capitals > _SOME_CAPITALS * len(words)


def _check_subwords(spec: ModelSpec, tokenizer: PreTrainedTokenizerBase, config: Any) -> None:
    """Raise ModelError if a subword or a special token has no row in the table of embeddings."""
    n_rows = config.get_text_config().vocab_size
    used = {tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id}
    extra = set(tokenizer.added_tokens_decoder) - used  # many models list more than their table has
    beyond = sorted((i, word) for word, i in tokenizer.get_vocab().items() if i >= n_rows and i not in extra)
    if beyond:
        raise ModelError(
            f"{spec.path}: its tokenizer has the subword {beyond[0][1]!r:.40} as number {beyond[0][0]:,}, but its "
            f"table of embeddings only {n_rows:,} rows. Use the tokenizer that belongs to the model."
        )


def _batches(
    spec: ModelSpec, head: Head, tokenizer: PreTrainedTokenizerBase, *, pairs: bool
) -> dict[str, list[Example]]:
    """Two sentences, texts or pairs each, as a trial's task encodes them, by what they are; of the last one is long."""
    task, longest, batches = next(t for t in TASKS.our_values() if t.head == head), min(LONGEST, spec.n_positions), {}
    kinds = ["sentences"] if head == "tokens" else ["texts", "pairs of texts"] if pairs else ["texts"]
    for kind in kinds:
        long, *items = _ITEMS[kind]
        of_length = {
            kind: (items, min(MAX_LENGTH, longest)),
            f"{kind} of {longest} subwords": ([long, items[1]], longest),
        }
        for what, (some, length) in of_length.items():
            how = Encoding(tokenizer, length, lowercase=False, token_types=has_token_types(spec))
            try:
                batches[what] = task.encode(some, LABELS, N_LABELS, how)
            except Exception as error:  # tokenizers of layouts, for instance, want a box for each word
                raise ModelError(f"{spec.path}: its tokenizer does not encode plain text ({reason(error)}).") from error
    return batches


def _train_step(spec: ModelSpec, head: Head, config: Any, batches: dict[str, list[Example]]) -> None:
    """Raise ModelError if neither a narrow copy of the model nor one of its own width can be trained."""
    family, error, what = family_of(spec), None, ""
    for narrow in (True, False):
        try:
            model = _small_model(head, family, small_config(config, narrow=narrow))
            if model is None:
                continue
            for what, examples in batches.items():  # noqa: B007 - the error says it
                _step(model, family, examples)
        except Exception as found:  # the architecture's own code may raise anything
            error = found
        else:
            return
    if error is not None:
        raise ModelError(
            f"{spec.path}: {spec.family!r} cannot be trained on text alone: a step on {what} with small random weights "
            f"fails ({reason(error)}). Use another model."
        ) from error


def _small_model(head: Head, family: ModelFamily, config: Any) -> Any:
    """A model with random weights; None if it is not small."""
    build = head_class(head, config)
    with torch.device("meta"):
        n_parameters = sum(p.numel() for p in build(config).parameters())
    if n_parameters > MOST_PARAMETERS:
        return None
    torch.manual_seed(0)
    model = build(config)
    if head == "text" and family.causal:
        pool_at_last_subword(model)
    return model.float().train()


def _step(model: Any, family: ModelFamily, examples: list[Example]) -> None:
    """A forward and a backward pass of two examples; raises whatever goes wrong."""
    parts = family.parts(model)
    _check_parts(model, parts)
    pad_id, cpu = model.config.pad_token_id or 0, torch.device("cpu")
    n_rows = model.config.get_text_config().vocab_size  # of a short table of embeddings
    examples = [
        replace(example, ids=np.where(example.ids < n_rows, example.ids, 2 + example.ids % (n_rows - 2)))
        for example in examples
    ]
    collate(examples[1:], pad_id, cpu).logits(model)  # one word alone
    batch = collate(examples, pad_id, cpu)
    logits = batch.logits(model)  # (examples, subwords, labels), of texts (examples, 1, labels)
    expected = (*batch.labels.shape, N_LABELS)
    if logits.shape != expected:
        raise ModelError(f"its logits have the shape {tuple(logits.shape)} and not {expected}")
    loss = cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORE)
    loss.backward()
    if not torch.isfinite(loss):
        raise ModelError("its loss is not finite")
    idle = [i for i, layer in enumerate(parts.encoder_layers) if all(p.grad is None for p in layer.parameters())]
    if idle:
        raise ModelError(f"layer {idle[0]} gets no gradient")


def _check_parts(model: Any, parts: Parts) -> None:
    modules = (parts.embeddings, *parts.encoder_layers, *parts.head)
    of_parts = [id(p) for module in modules for p in module.parameters()]
    if len(of_parts) != len(set(of_parts)):
        raise ModelError("its layers share weights, so they cannot be frozen one by one")
