"""Any other encoder of `transformers`: find its embeddings and layers, or say that they cannot be found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel

from trials.errors import ModelError, unknown
from trials.models.family import MODEL_FAMILIES, ModelFamily

LAYER_KEYS = ("num_hidden_layers", "n_layers", "num_layers")


def generic_family(config: dict[str, Any]) -> ModelFamily | None:
    """A family for a model nobody registered, from its `config.json`; None where the number of layers is not there."""
    key = next((key for key in LAYER_KEYS if isinstance(config.get(key), int)), None)
    if key is None or config.get("is_encoder_decoder") or config.get("is_decoder"):
        return None
    n_layers: int = config[key]
    dropout = tuple(k for k, v in config.items() if "dropout" in k and isinstance(v, float))
    return ModelFamily(key, dropout, lambda base: _encoder(base, n_layers), attention=())


def check_generic(folder: Path, config: dict[str, Any]) -> None:
    """Build the model without weights or memory and look for its parts.

    Raises:
        ModelError: the family is unknown to transformers too, or its layers or embeddings cannot be told apart.
    """
    name = str(config.get("model_type", ""))
    if name not in CONFIG_MAPPING:
        raise ModelError(f"{folder / 'config.json'}: model_type: {unknown(name, MODEL_FAMILIES)} Use another model.")
    family = generic_family(config)
    if family is None:
        raise ModelError(
            f"{folder}: {name!r} is not an encoder whose config.json counts its layers. Use another model."
        )
    try:
        with torch.device("meta"):
            base = AutoModel.from_config(AutoConfig.from_pretrained(folder, local_files_only=True))
    except Exception as error:  # whatever the architecture's own code raises
        raise ModelError(f"{folder}: {name!r} cannot be built ({error}). Use another model.") from error
    family.encoder(base)


def _encoder(base: Any, n_layers: int) -> tuple[nn.Module, tuple[nn.Module, ...]]:
    lists = [m for m in base.modules() if isinstance(m, nn.ModuleList) and len(m) == n_layers]
    inner = {id(m) for outer in lists for m in outer.modules() if m is not outer}
    stacks = [m for m in lists if id(m) not in inner]
    if len(stacks) != 1:
        raise ModelError(f"{type(base).__name__}: its {n_layers} encoder layers cannot be told. Use another model.")
    inside = {id(p) for p in stacks[0].parameters()}
    tables = [
        m for name, m in base.named_children() if "embed" in name and not any(id(p) in inside for p in m.parameters())
    ]
    if not tables:
        raise ModelError(f"{type(base).__name__}: its embeddings cannot be told. Use another model.")
    return nn.ModuleList(tables), tuple(stacks[0])
