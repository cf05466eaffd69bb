"""Unregistered encoders of `transformers`: find their embeddings and layers, or refuse them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel

from trials.errors import ModelError, unknown
from trials.models.family import MODEL_FAMILIES, ModelFamily

LAYER_KEYS = ("num_hidden_layers", "n_layers", "num_layers")


def generic_family(folder: Path, config: dict[str, Any]) -> ModelFamily:
    """The family of an unregistered model, derived by building the model on the meta device.

    Raises:
        ModelError: it is not an encoder, is unknown to transformers, or its layers or embeddings cannot be identified.
    """
    name = str(config.get("model_type", ""))
    if name not in CONFIG_MAPPING:
        raise ModelError(f"{folder / 'config.json'}: model_type: {unknown(name, MODEL_FAMILIES)} Use another model.")
    key = next((key for key in LAYER_KEYS if isinstance(config.get(key), int)), None)
    if key is None or config.get("is_encoder_decoder") or config.get("is_decoder"):
        raise ModelError(
            f"{folder}: {name!r} is not an encoder whose config.json counts its layers. Use another model."
        )
    try:
        with torch.device("meta"):
            config_ = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            base = AutoModel.from_config(config_, trust_remote_code=False)
    except Exception as error:  # the architecture's own code may raise anything
        raise ModelError(f"{folder}: {name!r} cannot be built ({error}). Use another model.") from error
    stack, tables, shared = _located_parts(base, name, config[key])
    return ModelFamily(
        layers_key=key,
        dropout_keys=tuple(k for k, v in config.items() if "dropout" in k and isinstance(v, float)),
        stack=stack,
        embeddings=tables,
        shared=shared,
        # Embeddings with a padding id, such as RoBERTa's, count positions from it.
        positions_from_pad=hasattr(base.get_submodule(tables[0]), "padding_idx"),
    )


def _located_parts(base: Any, name: str, n_layers: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The paths of the list of layers, of the embeddings, and of the modules that all layers share."""
    lists = {path: m for path, m in base.named_modules() if isinstance(m, nn.ModuleList) and len(m) == n_layers}
    outermost = [path for path in lists if not any(path.startswith(f"{other}.") for other in lists)]
    if len(outermost) != 1:
        raise ModelError(f"{name!r}: its {n_layers} encoder layers cannot be identified. Use another model.")
    tables = tuple(path for path, _ in base.named_children() if "embed" in path)
    if not tables:
        raise ModelError(f"{name!r}: its embeddings cannot be identified. Use another model.")
    return outermost[0], tables, _shared(base, outermost[0])


def _shared(base: Any, stack: str) -> tuple[str, ...]:
    """Modules with parameters beside the layers, such as a table of relative positions, without a final LayerNorm."""
    parent, _, child = stack.rpartition(".")
    if not parent:
        return ()
    beside = ((name, m) for name, m in base.get_submodule(parent).named_children() if name != child)
    return tuple(f"{parent}.{name}" for name, m in beside if not isinstance(m, nn.LayerNorm) and [*m.parameters()])
