"""Rehearse a trial of a model: its weights, head and tokenizer, and a training step of a small random copy of it.

The copy has two layers, two attention heads and a short vocabulary. The size of a head stays, because rotary angles,
relative positions and the like depend on it; widths shrink as the number of heads does. Where that breaks a relation
that is not known here, the widths can stay as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase

from trials.corpora.corpus import Item, Sentence, Text
from trials.errors import ModelError, quote, reason
from trials.models.family import Head, ModelFamily, Parts, pool_at_last_subword
from trials.models.load import (
    family_of,
    filled_from_files,
    has_token_types,
    head_class,
    head_config,
    load_tokenizer,
    read_model,
    read_tokenizer,
)
from trials.spec import ModelSpec
from trials.tasks import TASKS
from trials.tasks.task import IGNORE, Encoding, Example
from trials.training.batching import collate

_SOME_CAPITALS = 0.01  # smallest share of words with capitals in a cased vocabulary
MOST_PARAMETERS = 40_000_000  # parameters of the small copy: 160 MB, and as much for gradients
N_LABELS = 3
MAX_LENGTH = 24  # subwords of the short items
LONGEST = 512  # of the long items; positions of encoders that count them in a table
LABELS = ("A", "B", "C")
LAYERS = 2  # of the small copy: one to freeze and one to train
HEADS = 2
EXPERTS = 16
VOCABULARY = 64
_LAYERS = ("num_hidden_layers", "n_layers", "num_layers", "n_layer")
_HEADS = ("num_attention_heads", "n_heads", "n_head", "num_heads")
_KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads")
_WIDTHS = ("hidden_size", "d_model", "dim", "n_embd", "emb_dim")
_INNER_WIDTHS = ("intermediate_size", "d_ff", "dff", "hidden_dim", "n_inner", "moe_intermediate_size")
_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")
# Wrappers whose names are left in weights that were saved from inside of them.
_UNWRAPPED = "getattr(model, '_orig_mod', getattr(model, 'module', model))"
_WRAPPERS = {
    "_orig_mod.": ("torch.compile", _UNWRAPPED), "module.": ("DataParallel", _UNWRAPPED),
    "base_model.model.": ("peft, whose adapter is not merged", "model.merge_and_unload()"),
}  # fmt: skip
_in_layer = re.compile(r"(^|\.)(layers?|h|blocks?|groups?|encoder|transformer)\.(\d+|.*\.\d+)\.")
_BUFFERS = (
    "position_ids", "token_type_ids", "inv_freq", "masked_bias", "attn.bias", "attention.bias",
    "embed_positions.weights",
)  # fmt: skip
_MEANT = {
    "lora": "an adapter that is not merged: call `merge_and_unload()` of peft, and save that",
    "adapter": "adapters that are not merged: use the model without them",
    "distance_embedding": "relative positions, which transformers 5 no longer has for this architecture: use another",
}
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
        _check_weights(spec, head, config)
        with _panics_caught(spec):
            tokenizer, notes = _tokenizer(spec, head)
            _check_subwords(spec, tokenizer, config)
            batches = _batches(spec, head, tokenizer, pairs=pairs)
        with torch.inference_mode(False), torch.enable_grad():  # a caller may have switched gradients off
            _train_step(spec, head, config, batches)
    return notes


def _check_weights(spec: ModelSpec, head: Head, config: Any) -> None:
    """Raise ModelError unless the files have every tensor of the encoder, in its shape and finite, and no other."""
    try:
        model, report = read_model(spec, head, config)
    except ModelError:
        raise
    except Exception as error:  # the architecture's own code may raise anything
        raise ModelError(f"{spec.path}: {spec.family!r} cannot be built ({reason(error)}).") from error
    for wrapper, (origin, inside) in _WRAPPERS.items():
        if any(name.startswith(wrapper) for name in report["unexpected_keys"]):
            raise ModelError(
                f"{spec.path}: the names of tensors begin with {wrapper!r}, of {origin}. Save the model inside it: "
                f"`{inside}.save_pretrained(FOLDER)`."
            )
    n_layers = len(getattr(model, model.base_model_prefix).get_submodule(family_of(spec).stack))
    if n_layers != spec.n_layers:
        raise ModelError(f"{spec.path}: config.json counts {spec.n_layers} layers, but its model has {n_layers}.")
    filled_from_files(spec, model, report)
    _refuse_unread(spec, model, report["unexpected_keys"])
    for name, tensor in model.named_parameters():
        if not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"{spec.path}: {name} holds numbers that are not finite (NaN or inf). Use other weights.")


def _refuse_unread(spec: ModelSpec, model: Any, unread: Iterable[str]) -> None:
    """Raise ModelError if the files have tensors inside of the layers that the architecture does not read."""
    inside = sorted(
        name for name in unread if _in_layer.search(name) and "decoder" not in name and not name.endswith(_BUFFERS)
    )
    kind = getattr(model.config, "position_embedding_type", None)
    has_relative = any("distance_embedding" in name for name, _ in model.named_parameters())
    if not inside and isinstance(kind, str) and kind.startswith("relative") and not has_relative:
        asks = f"config.json: position_embedding_type: {quote(kind)} asks for {_MEANT['distance_embedding']}"
        raise ModelError(f"{spec.path}: {asks}.")
    if inside:
        meant = next((text for part, text in _MEANT.items() if part in inside[0].lower()), "another architecture's")
        more = f" and {len(inside) - 1:,} more" if len(inside) > 1 else ""
        raise ModelError(
            f"{spec.path}: its weights have tensors in the layers that {spec.family!r} does not read, {inside[0]}{more}"
            f": {meant}."
        )


@contextmanager
def _panics_caught(spec: ModelSpec) -> Iterator[None]:
    """Turn a panic of the tokenizers library, which is no Exception, into a ModelError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ModelError(
            f"{spec.path}: its tokenizer.json contradicts itself ({reason(error)}). Save it again."
        ) from error


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


def small_config(config: Any, *, narrow: bool) -> Any:
    """A copy of a configuration of `transformers` with few layers, few experts and a short vocabulary.

    Args:
        config: The configuration, which is not changed.
        narrow: Whether its layers have two heads and a width to match, rather than their own width.

    Raises:
        Exception: whatever the configuration's class raises if the entries do not go together.
    """
    entries: dict[str, Any] = config.to_dict()
    entries.pop("model_type", None)
    _shorten(entries)
    if narrow:
        _narrow(entries)
    return type(config)(**entries)


def _shorten(entries: dict[str, Any]) -> None:
    n_layers = _first(entries, _LAYERS)
    for key, value in entries.items():
        if key in _LAYERS and _is_number(value):
            entries[key] = min(value, LAYERS)
        elif isinstance(value, list) and n_layers > LAYERS and len(value) == n_layers:  # one entry a layer
            entries[key] = value[:LAYERS]
        elif key in _EXPERTS and _is_number(value):
            entries[key] = min(value, EXPERTS)
        elif key.endswith("vocab_size") and _is_number(value):
            entries[key] = min(value, VOCABULARY)
        elif key.endswith("token_id") and _is_number(value) and value >= VOCABULARY:
            entries[key] = 1 if key == "pad_token_id" else 0


def _narrow(entries: dict[str, Any]) -> None:
    width, n_heads = _first(entries, _WIDTHS), _first(entries, _HEADS)
    head_width = _first(entries, ("head_dim",)) or width // max(n_heads, 1)
    if n_heads <= HEADS or not head_width:
        return
    for key, value in entries.items():
        if key in _HEADS and value == n_heads:
            entries[key] = HEADS
        elif key in _KEY_VALUE_HEADS and _is_number(value):
            entries[key] = HEADS if value == n_heads else 1
        elif key in _INNER_WIDTHS and _is_number(value):
            entries[key] = max(value * HEADS // n_heads // 16 * 16, 16)
        elif _is_number(value) and value == width and "position" not in key:
            entries[key] = head_width * HEADS


def _first(entries: dict[str, Any], keys: tuple[str, ...]) -> int:
    return next((entries[key] for key in keys if _is_number(entries.get(key))), 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
