"""Low-rank adapters (Hu et al. 2021) by the `peft` library, added before training and merged before saving."""

from __future__ import annotations

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import nn
from transformers.pytorch_utils import Conv1D  # GPT-2's linear layer

from trials.errors import ModelError
from trials.models.family import ModelFamily
from trials.models.load import LoadedModel
from trials.spec import FreezeSpec, LoraSpec


def add_adapters(loaded: LoadedModel, family: ModelFamily, lora: LoraSpec, freeze: FreezeSpec) -> None:
    """Add adapters to encoder layers, whose own weights are then frozen. Uses torch's global random state.

    Raises:
        ModelError: the family's query and value projections are not known.
    """
    layers = loaded.parts.encoder_layers
    adapted = [layer for i, layer in enumerate(layers) if lora.layers == "all" or i not in freeze.layers]
    names = {id(module): name for name, module in loaded.model.named_modules()}
    targets = [names[id(m)] for layer in adapted for m in _projections(layer, family, lora)]
    inside = {id(p) for layer in adapted for p in layer.parameters()}
    learning = {id(p) for p in loaded.model.parameters() if p.requires_grad} - inside
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets,
        fan_in_fan_out=any(isinstance(module, Conv1D) for layer in adapted for module in layer.modules()),
    )  # fmt: skip
    inject_adapter_in_model(config, loaded.model)
    for name, parameter in loaded.model.named_parameters():  # peft froze everything but the adapters
        parameter.requires_grad_(id(parameter) in learning or "lora_" in name)


def _projections(layer: nn.Module, family: ModelFamily, lora: LoraSpec) -> list[nn.Module]:
    projections: list[nn.Module] = [
        module
        for name, module in layer.named_modules()
        if isinstance(module, (nn.Linear, Conv1D)) and (lora.targets == "linear" or name.endswith(family.attention))
    ]
    if lora.targets == "attention" and not family.attention:
        raise ModelError("lora.targets: the attention projections of this model are not known. Use `targets: linear`.")
    return projections


@torch.no_grad()
def merge_adapters(model: nn.Module) -> None:
    """Merge every adapter into its base weights and remove it, so that the model is a plain one again."""
    for name, module in list(model.named_modules()):
        if isinstance(module, LoraLayer):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, module.get_base_layer())
