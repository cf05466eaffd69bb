"""Rehearse a trial of a model: its head, weights and tokenizer, and a training step of a small random copy of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase
from transformers.modeling_utils import load_state_dict

from trials.datasets.corpus import Item, Sentence, Text
from trials.errors import ModelError, reason
from trials.model_checks.small_config import small_config
from trials.models.decoders import pool_at_last_subword
from trials.models.family import Head, ModelFamily, Parts
from trials.models.load import family_of, filled_from_files, head_class, head_config, load_tokenizer, read_tokenizer
from trials.models.model_files import PICKLE
from trials.settings import ModelSpec
from trials.sources.local_models import weight_shapes
from trials.tasks import TASKS
from trials.tasks.task import IGNORE, Encoding, Example
from trials.training.batching import collate

MOST_PARAMETERS = 40_000_000  # of the small copy: 160 MB, and as much for gradients
N_LABELS = 3
MAX_LENGTH = 24
LABELS = ("A", "B", "C")
_SENTENCES: list[Item] = [
    Sentence(("Nothing", "is", "lost", "on", "the", "way", "."), ("A", "B", "C", "A", "B", "C", "A")),
    Sentence(("I",), ("B",)),
]
_TEXTS: list[Item] = [Text("Nothing is lost on the way.", None, "A"), Text("I", None, "B")]


def rehearse(spec: ModelSpec, head: Head) -> tuple[str, ...]:
    """Sentences about the model that the user should read.

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
        _check_weights(spec, head, config)
        with _panics_caught(spec):
            tokenizer, notes = _tokenizer(spec, head)
            _check_subwords(spec, tokenizer, config)
            examples = _examples(spec, head, tokenizer)
        with torch.inference_mode(False), torch.enable_grad():  # a caller may have switched gradients off
            _train_step(spec, head, config, examples)
    return notes


# --- Weights


def _check_weights(spec: ModelSpec, head: Head, config: Any) -> None:
    """Raise ModelError unless the files have every tensor of the encoder in its shape; none is read."""
    tensors = {name: torch.empty(shape, device="meta") for name, shape in _shapes(spec).items()}
    try:
        model, report = head_class(head, config).from_pretrained(
            None, config=config, state_dict=tensors, device_map="meta", dtype=torch.float32,
            local_files_only=True, trust_remote_code=False, ignore_mismatched_sizes=True, output_loading_info=True,
        )  # fmt: skip
    except Exception as error:  # the architecture's own code may raise anything
        raise ModelError(f"{spec.path}: {spec.family!r} cannot be built ({reason(error)}).") from error
    n_layers = len(getattr(model, model.base_model_prefix).get_submodule(family_of(spec).stack))
    if n_layers != spec.n_layers:
        raise ModelError(f"{spec.path}: config.json counts {spec.n_layers} layers, but its model has {n_layers}.")
    filled_from_files(spec, model, report)


def _shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    if not spec.pickle:
        return weight_shapes(Path(spec.path))
    path = Path(spec.path) / PICKLE
    try:
        tensors = load_state_dict(path, map_location="meta")  # tensors only
        return {str(name): tuple(tensor.shape) for name, tensor in tensors.items()}
    except UnpicklingError as error:
        raise ModelError(f"{path}: holds more than tensors and is not loaded. Use safetensors.") from error
    except Exception as error:  # of a truncated archive, for instance
        raise ModelError(f"{path}: cannot be read ({reason(error)}). Fetch it again.") from error


# --- The tokenizer


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
    note = f"its tokenizer has no padding token; {tokenizer.pad_token!r} stands in for it, which no subword attends to."
    return tokenizer, () if has_padding else (note,)


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


def _examples(spec: ModelSpec, head: Head, tokenizer: PreTrainedTokenizerBase) -> list[Example]:
    """Two sentences or texts, as a trial's task encodes them."""
    task, items = (TASKS["pos"], _SENTENCES) if head == "tokens" else (TASKS["classification"], _TEXTS)
    length = min(MAX_LENGTH, spec.n_positions)
    how = Encoding(tokenizer, length, lowercase=False, token_types=family_of(spec).token_types)
    try:
        return task.encode(items, LABELS, N_LABELS, how)
    except Exception as error:  # tokenizers of layouts, for instance, want a box for each word
        raise ModelError(f"{spec.path}: its tokenizer does not encode plain text ({reason(error)}).") from error


# --- A training step


def _train_step(spec: ModelSpec, head: Head, config: Any, examples: list[Example]) -> None:
    """Raise ModelError if neither a narrow copy of the model nor one of its own width can be trained."""
    family, error = family_of(spec), None
    for narrow in (True, False):
        try:
            model = _small_model(head, family, small_config(config, narrow=narrow))
            if model is None:
                continue
            _step(model, family, examples)
        except Exception as found:  # the architecture's own code may raise anything
            error = found
        else:
            return
    if error is not None:
        raise ModelError(
            f"{spec.path}: {spec.family!r} cannot be trained on text alone: a step with small random weights fails "
            f"({reason(error)}). Use another model."
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
    examples = [_within(example, model.config.get_text_config().vocab_size) for example in examples]
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


def _within(example: Example, n_rows: int) -> Example:
    """The example with ids that a short table of embeddings has."""
    return replace(example, ids=np.where(example.ids < n_rows, example.ids, 2 + example.ids % (n_rows - 2)))
