"""What the rest of the trial needs to know of a model family: its sizes and its three parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trials.registry import Registry

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Parts:
    """The three parts of a model with a task head; disjoint, and together all of its parameters.

    Attributes:
        embeddings: The embedding tables and their LayerNorm.
        encoder_layers: The layers, from the embeddings up.
        head: What the task put on top.
    """

    embeddings: nn.Module
    encoder_layers: tuple[nn.Module, ...]
    head: tuple[nn.Module, ...]


@dataclass(frozen=True)
class ModelFamily:
    """One architecture of the `transformers` library.

    Attributes:
        layers_key: The entry of `config.json` that says how many encoder layers there are.
        dropout_keys: The entries of the config that hold a dropout probability.
        parts: Finds the three parts of a token classifier of the family.
    """

    layers_key: str
    dropout_keys: tuple[str, ...]
    parts: Callable[[nn.Module], Parts]


MODEL_FAMILIES: Registry[ModelFamily] = Registry("model family")
