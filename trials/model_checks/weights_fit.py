"""Whether the files of a model have every tensor that its architecture reads, in its shape and finite."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import safe_open
from transformers.modeling_utils import load_state_dict

from trials.errors import ModelError, reason
from trials.escaping import quoted
from trials.models.family import Head
from trials.models.load import (
    family_of,
    filled_from_files,
    head_class,
)
from trials.models.model_files import PICKLE, WEIGHTS, shards, weight_shapes
from trials.settings import ModelSpec


def check_weights(spec: ModelSpec, head: Head, config: Any) -> None:
    """Raise ModelError unless the files have every tensor of the encoder in its shape; none is read."""
    tensors = {name: torch.empty(shape, device="meta") for name, shape in _shapes(spec).items()}
    for wrapper, (origin, inside) in _WRAPPERS.items():
        if tensors and all(name.startswith(wrapper) for name in tensors):
            raise ModelError(
                f"{spec.path}: the names of all tensors begin with {wrapper!r}, of {origin}. Save the model inside it: "
                f"`{inside}.save_pretrained(FOLDER)`."
            )
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
    _refuse_unread(spec, model, report["unexpected_keys"])
    _refuse_not_finite(spec, {*tensors} - {*report["unexpected_keys"]})


# Wrappers whose names are left in weights that were saved from inside of them.
_UNWRAPPED = "getattr(model, '_orig_mod', getattr(model, 'module', model))"
_WRAPPERS = {
    "_orig_mod.": ("torch.compile", _UNWRAPPED), "module.": ("DataParallel", _UNWRAPPED),
    "base_model.model.": ("peft, whose adapter is not merged", "model.merge_and_unload()"),
}  # fmt: skip
_in_layer = re.compile(r"(^|\.)(layers?|h|blocks?|groups?|encoder|transformer)\.(\d+|.*\.\d+)\.")
_BUFFERS = (
    "position_ids",
    "token_type_ids",
    "inv_freq",
    "masked_bias",
    "attn.bias",
    "attention.bias",
    "embed_positions.weights",
)
_MEANT = {
    "lora": "an adapter that is not merged: call `merge_and_unload()` of peft, and save that",
    "adapter": "adapters that are not merged: use the model without them",
    "distance_embedding": "relative positions, which transformers 5 no longer has for this architecture: use another",
}


def _refuse_unread(spec: ModelSpec, model: Any, unread: Iterable[str]) -> None:
    """Raise ModelError if the files have tensors inside of the layers that the architecture does not read."""
    inside = sorted(
        name for name in unread if _in_layer.search(name) and "decoder" not in name and not name.endswith(_BUFFERS)
    )
    kind = getattr(model.config, "position_embedding_type", None)
    has_relative = any("distance_embedding" in name for name, _ in model.named_parameters())
    if not inside and isinstance(kind, str) and kind.startswith("relative") and not has_relative:
        asks = f"config.json: position_embedding_type: {quoted(kind)} asks for {_MEANT['distance_embedding']}"
        raise ModelError(f"{spec.path}: {asks}.")
    if inside:
        meant = next((text for part, text in _MEANT.items() if part in inside[0].lower()), "another architecture's")
        more = f" and {len(inside) - 1:,} more" if len(inside) > 1 else ""
        raise ModelError(
            f"{spec.path}: its weights have tensors in the layers that {spec.family!r} does not read, {inside[0]}{more}"
            f": {meant}."
        )


def _refuse_not_finite(spec: ModelSpec, read: Collection[str]) -> None:
    """Raise ModelError if a tensor that is read holds a NaN or an infinite number."""
    for name, tensor in _tensors(spec):
        if name in read and tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"{spec.path}: {name} holds numbers that are not finite (NaN or inf). Use other weights.")


def _tensors(spec: ModelSpec) -> Iterator[tuple[str, torch.Tensor]]:
    folder = Path(spec.path)
    if spec.pickle:
        yield from load_state_dict(folder / PICKLE, map_location="cpu").items()
        return
    for file in shards(folder) if not (folder / WEIGHTS).is_file() else [WEIGHTS]:
        with safe_open(folder / file, framework="pt") as opened_file:
            for name in opened_file.keys():  # noqa: SIM118 - no dict
                yield name, opened_file.get_tensor(name)


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
