"""What the rest of the trial needs to know of a model family: its sizes, its parts, its tokenizer's habits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trials.registry import Registry

if TYPE_CHECKING:
    from torch import nn

Head = Literal["tokens", "text"]  # a label for every word, or one for the whole input


@dataclass(frozen=True)
class Parts:
    """The three parts of a model with a task head; disjoint, and together all of its parameters.

    Attributes:
        embeddings: The embedding tables and their LayerNorm.
        encoder_layers: The layers, from the embeddings up.
        head: What the task put on top, and what stands between it and the last layer (a pooler, a final LayerNorm).
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
        encoder: Finds (embeddings, encoder layers) in the model without its head.
        attention: Names of the query and value projections, where adapters go.
        positions_from_pad: Whether positions are counted from the padding id on, as RoBERTa does, so that
            `max_position_embeddings` holds more than can be used.
        token_types: Whether the two texts of a pair are told apart by token types.
        prefix_space: Whether the tokenizer must be told that every word begins with a space.
    """

    layers_key: str
    dropout_keys: tuple[str, ...]
    encoder: Callable[[Any], tuple[nn.Module, tuple[nn.Module, ...]]]
    attention: tuple[str, ...]
    positions_from_pad: bool = False
    token_types: bool = False
    prefix_space: bool = False

    def parts(self, model: Any) -> Parts:
        """The three parts of a model of the family."""
        base = getattr(model, model.base_model_prefix)
        embeddings, layers = self.encoder(base)
        inside = {id(p) for module in (embeddings, *layers) for p in module.parameters()}
        rest = (m for m in model.modules() if any(id(p) not in inside for p in m.parameters(recurse=False)))
        return Parts(embeddings, layers, tuple(rest))


MODEL_FAMILIES: Registry[ModelFamily] = Registry("model family")

REFUSED: dict[str, str] = {}  # families that can never work here, with the reason
