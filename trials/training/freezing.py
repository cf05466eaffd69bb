"""Freeze parts of a model: they get no gradient, and no dropout if the recipe says so."""

from __future__ import annotations

from torch import nn

from trials.models.family import Parts
from trials.settings import FreezeSpec


def frozen_modules(parts: Parts, freeze: FreezeSpec) -> list[nn.Module]:
    """The modules that are frozen."""
    layers = [parts.encoder_layers[i] for i in freeze.layers]
    return [parts.embeddings, *layers] if freeze.embeddings else layers


def freeze_parts(parts: Parts, freeze: FreezeSpec) -> None:
    """Turn gradients off in the frozen parts and on in all others, but for tables that are never learned."""
    for module in (parts.embeddings, *parts.encoder_layers, *parts.head):
        module.requires_grad_(True)
    for module in (*frozen_modules(parts, freeze), *parts.computed):
        module.requires_grad_(False)


def train_mode(model: nn.Module, parts: Parts, freeze: FreezeSpec, *, frozen_dropout: bool) -> None:
    """Put the model into training mode; frozen parts have dropout only with `frozen_dropout`."""
    model.train()
    if not frozen_dropout:
        for module in frozen_modules(parts, freeze):
            module.eval()
