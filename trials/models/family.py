"""A model family: where a model's parts are, and the peculiarities of its configuration, tokenizer and mask."""

from __future__ import annotations

from collections.abc import Sequence
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
        head: The task's own modules, and those between them and the last layer (a pooler, a final LayerNorm).
    """

    embeddings: nn.Module
    encoder_layers: tuple[nn.Module, ...]
    head: tuple[nn.Module, ...]


@dataclass(frozen=True)
class ModelFamily:
    """One architecture of the `transformers` library; modules are named by their path in the model without its head.

    Attributes:
        layers_key: The entry of `config.json` that says how many encoder layers there are.
        dropout_keys: The entries of the config that hold a dropout probability.
        stack: The list of encoder layers.
        embeddings: Modules that turn input ids into the first layer's input, in order; absent ones are skipped.
        shared: Modules that every layer uses; they count as embeddings.
        beside_first: Modules that run in parallel to the first layer; they count as that layer.
        needs_a_layer: Whether the encoder fails without any layer.
        attention: Names of the query and value projections, where adapters go.
        positions_from_pad: Whether positions start after the padding id, as in RoBERTa, so that
            `max_position_embeddings` is larger than the number of usable positions.
        token_types: Whether token types distinguish the two texts of a pair.
        prefix_space: Whether the tokenizer has to be asked to begin every word with a space.
        square_mask: Whether the model takes a ready (examples, 1, subwords, subwords) attention mask: only where
            `transformers` makes its masks by `create_bidirectional_mask` alone, which passes such a mask on. DeBERTa
            computes with its mask, and ModernBERT derives a second, windowed one from it.
    """

    layers_key: str
    dropout_keys: tuple[str, ...]
    stack: str
    embeddings: tuple[str, ...] = ("embeddings",)
    shared: tuple[str, ...] = ()
    beside_first: tuple[str, ...] = ()
    needs_a_layer: bool = False
    attention: tuple[str, ...] = ()
    positions_from_pad: bool = False
    token_types: bool = False
    prefix_space: bool = False
    square_mask: bool = False

    def parts(self, model: Any) -> Parts:
        """The three parts of a model of the family."""
        base = getattr(model, model.base_model_prefix)
        # A parameter of the encoder itself, such as LayoutLMv3's class token, is part of its input.
        own = list(base.parameters(recurse=False))
        embeddings = _together([*_named(base, self.embeddings), *_named(base, self.shared)], own)
        layers = list(base.get_submodule(self.stack))
        layers[0] = _together([layers[0], *_named(base, self.beside_first)])
        inside = {id(p) for module in (embeddings, *layers) for p in module.parameters()}
        rest = (m for m in model.modules() if any(id(p) not in inside for p in m.parameters(recurse=False)))
        return Parts(embeddings, tuple(layers), tuple(rest))


def _named(base: Any, paths: tuple[str, ...]) -> list[nn.Module]:
    """The modules of these paths that the model has."""
    modules = dict(base.named_modules())
    return [modules[path] for path in paths if modules.get(path) is not None]


def _together(modules: list[nn.Module], parameters: Sequence[nn.Parameter] = ()) -> nn.Module:
    """One module that holds all of these; itself, if it is only one."""
    if len(modules) == 1 and not parameters:
        return modules[0]
    from torch import nn  # a plan reads this module without torch

    return nn.ModuleList([*modules, nn.ParameterList(parameters)])


MODEL_FAMILIES: Registry[ModelFamily] = Registry("model family")

REFUSED: dict[str, str] = {}  # families that cannot be frozen layer by layer, with the reason
