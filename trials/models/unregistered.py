"""Unregistered encoders of `transformers`: find their embeddings and layers, or refuse them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from trials.errors import ModelError, quote, reason, unknown_name
from trials.models.family import MODEL_FAMILIES, ModelFamily, is_norm

Paths = tuple[str, ...]
HEADS = (AutoModelForTokenClassification._model_mapping, AutoModelForSequenceClassification._model_mapping)
LAYER_KEYS = ("num_hidden_layers", "n_layers", "num_layers")


def generic_family(folder: Path, config: dict[str, Any]) -> ModelFamily:
    """The family of an unregistered model, derived by building the model on the meta device.

    Raises:
        ModelError: it is not an encoder, is unknown to transformers, or its layers or embeddings cannot be identified.
    """
    name = str(config.get("model_type", ""))
    if name not in CONFIG_MAPPING and config.get("auto_map"):
        raise ModelError(
            f"{folder / 'config.json'}: model_type: {quote(name)} is an architecture of code that came with the model "
            "(auto_map), which is never run here. Use a model whose architecture transformers knows."
        )
    if name not in CONFIG_MAPPING:
        raise ModelError(
            f"{folder / 'config.json'}: model_type: {unknown_name(name, MODEL_FAMILIES)} Use another model."
        )
    if not any(CONFIG_MAPPING[name] in heads for heads in HEADS):
        raise ModelError(
            f"{folder}: transformers has no head for tagging or classifying text with {name!r}. Use another model."
        )
    if config.get("is_encoder_decoder") or config.get("is_decoder"):
        raise ModelError(f"{folder}: {name!r} is not an encoder alone but has a decoder. Use another model.")
    key = next((key for key in LAYER_KEYS if isinstance(config.get(key), int)), None)
    if key is None:
        parts = [part for part in CONFIG_MAPPING[name].sub_configs if isinstance(config.get(part), dict)]
        why = f"is made of several models ({', '.join(parts)})" if parts else f"has no {', '.join(LAYER_KEYS)}"
        raise ModelError(f"{folder}: config.json of {name!r} {why}, so its layers are unknown. Use another model.")
    try:
        with torch.device("meta"):
            config_ = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            base = AutoModel.from_config(config_, trust_remote_code=False)
    except Exception as error:  # the architecture's own code may raise anything
        raise ModelError(f"{folder}: {name!r} cannot be built ({reason(error)}). Use another model.") from error
    if base.main_input_name != "input_ids":
        raise ModelError(f"{folder}: {name!r} reads {base.main_input_name}, not subwords. Use another model.")
    stack, tables, shared, after = _located_parts(base, f"{folder}: {name!r}", config[key])
    return ModelFamily(
        layers_key=key,
        dropout_keys=tuple(k for k, v in config.items() if "dropout" in k and isinstance(v, float)),
        stack=stack,
        embeddings=tables,
        shared=shared,
        after=after,
        # Embeddings with a padding id, such as RoBERTa's, count positions from it.
        positions_from_pad=hasattr(base.get_submodule(tables[0]), "padding_idx")
        and not isinstance(base.get_submodule(tables[0]), nn.Embedding),
        causal=any(getattr(module, "is_causal", False) for module in base.modules()),
    )


def _located_parts(base: Any, whose: str, n_layers: int) -> tuple[str, Paths, Paths, Paths]:
    """The paths of the list of layers, of the embeddings, of the modules that all layers share, and of a final norm."""
    lists = {path: m for path, m in base.named_modules() if isinstance(m, nn.ModuleList) and len(m) == n_layers}
    outermost = [path for path in lists if not any(path.startswith(f"{other}.") for other in lists)]
    if len(outermost) != 1:
        raise ModelError(f"{whose}: its {n_layers} encoder layers cannot be identified. Use another model.")
    tables = tuple(path for path, _ in base.named_children() if "embed" in path)
    if not tables:
        raise ModelError(f"{whose}: its embeddings cannot be identified. Use another model.")
    parent, _, child = outermost[0].rpartition(".")
    beside = [(name, m) for name, m in base.get_submodule(parent).named_children() if name != child]
    norms = [name for name, m in beside if is_norm(m)]
    # A table of relative positions, for instance. Beside a list in the model itself stand a pooler and the embeddings.
    shared = [name for name, m in beside if parent and name not in norms and [*m.parameters()]]
    start = f"{parent}." if parent else ""
    return outermost[0], tables, tuple(start + name for name in shared), tuple(start + name for name in norms)
