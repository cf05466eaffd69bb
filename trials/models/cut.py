"""Run only some of an encoder's layers."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from trials.models.family import ModelFamily


class _Given(nn.Module):
    """Replaces the embeddings: returns the hidden states that the model is given as `inputs_embeds`."""

    def forward(self, *args: Any, inputs_embeds: torch.Tensor | None = None, **unused: Any) -> torch.Tensor:
        given: torch.Tensor = args[1] if inputs_embeds is None else inputs_embeds  # DistilBERT gives it by position
        return given


class _AddsNothing(nn.Module):
    """Replaces a table whose rows are added to the states, such as GPT-2's table of positions."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.zeros((), device=ids.device)


class _Through(nn.Module):
    """Replaces an empty stack of layers, for encoders that need the output of a last one."""

    def forward(self, hidden: torch.Tensor, *args: Any, **unused: Any) -> tuple[torch.Tensor, None]:
        return hidden, None


def start_at(model: Any, family: ModelFamily, layer: int) -> Callable[[], None]:
    """Remove the embeddings and the layers below `layer` from a model, which then takes `inputs_embeds`; returns a
    function that puts them back.
    """
    base = getattr(model, model.base_model_prefix)
    paths = (family.stack, *family.embeddings, *family.beside_first)
    before, config = {path: base.get_submodule(path) for path in paths if _has(base, path)}, base.config
    _cut_layers(base, family, layer, None)

    def restore() -> None:
        base.config = config
        for path, module in before.items():
            _replace(base, path, module)

    return restore


def section(base: Any, family: ModelFamily, start: int, stop: int) -> nn.Module:
    """The encoder's layers `start` to `stop` - 1, with shared weights. From layer 0 on it takes `input_ids`.

    Its output is that of the last of these layers.
    """
    twin = _twin(base, (family.stack, *family.embeddings, *family.beside_first, *family.after))
    twin._forward_hooks = OrderedDict()  # they prepare the output for the head
    if getattr(twin, "pooler", None) is not None:
        twin.pooler = None
    _cut_layers(twin, family, start, stop)
    for path in family.after:
        _replace(twin, path, nn.Identity())
    twin.eval()
    part: nn.Module = twin
    return part


def _cut_layers(base: Any, family: ModelFamily, start: int, stop: int | None) -> None:
    layers = list(base.get_submodule(family.stack))[start:stop]
    if not layers and family.needs_a_layer:
        layers = [_Through()]
    _replace(base, family.stack, nn.ModuleList(layers))
    if isinstance(getattr(base.config, "layer_types", None), list):  # what each layer attends to, by index in the list
        base.config = copy.copy(base.config)
        base.config.__dict__["layer_types"] = base.config.layer_types[start:stop]  # its setter wants one for each layer
    for path in family.beside_first if start or stop == 0 else ():
        _replace(base, path, None)
    if start == 0:
        return
    first, *others = (path for path in family.embeddings if _has(base, path))
    _replace(base, first, _Given())
    tables = (nn.Embedding, _AddsNothing)  # the latter if it was cut before
    for path in others:
        _replace(base, path, _AddsNothing() if isinstance(base.get_submodule(path), tables) else nn.Identity())


def _has(base: Any, path: str) -> bool:
    return any(name == path for name, _ in base.named_modules())


def _replace(base: Any, path: str, module: nn.Module | None) -> None:
    parent, _, child = path.rpartition(".")
    holder = base.get_submodule(parent)
    if child in holder._modules:
        holder._modules[child] = module


def _twin(base: Any, paths: tuple[str, ...]) -> Any:
    """A shallow copy with the same weights, in which the modules at these paths can be replaced."""
    twin = _shallow(base)
    for path in paths:
        holder = twin
        for name in path.split(".")[:-1]:
            if holder._modules[name] is base.get_submodule(name):  # not yet a twin of its own
                holder._modules[name] = _shallow(holder._modules[name])
            holder = holder._modules[name]
    return twin


def _shallow(module: Any) -> Any:
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin
