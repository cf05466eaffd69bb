"""A model family: where a model's parts are, and the peculiarities of its configuration, tokenizer and mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trials.plugins.loading import Registry
from trials.settings import ModelSpec

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
        computed: Modules inside these parts whose tables are computed, not learned; they are never trained.
    """

    embeddings: nn.Module
    encoder_layers: tuple[nn.Module, ...]
    head: tuple[nn.Module, ...]
    computed: tuple[nn.Module, ...] = ()


@dataclass(frozen=True)
class ModelFamily:
    """One architecture of the `transformers` library; modules are named by their path in the model without its head.

    Attributes:
        layers_key: The entry of `config.json` that says how many encoder layers there are.
        dropout_keys: The entries of the config that hold a dropout probability.
        stack: The list of encoder layers.
        embeddings: Modules that turn input ids into the first layer's input, in order; absent ones are skipped.
        shared: Modules that every layer uses; they count as embeddings.
        computed: Those of them whose tables are computed, not learned, such as sines of positions.
        beside_first: Modules that run in parallel to the first layer; they count as that layer.
        after: Modules between the last layer and the task's head, such as a final norm; they count as the head.
        needs_a_layer: Whether the encoder fails without any layer.
        attention: Names of the query and value projections, where adapters go.
        positions_from_pad: Whether positions start after the padding id, as in RoBERTa, so that
            `max_position_embeddings` is larger than the number of usable positions.
        padding_free: Whether batches lie end to end. Each model is tried when it is loaded (`models.padding_free`);
            forecasts go by this.
        first_position: Position of the first subword, if it is another than 0 whatever the padding id.
        token_types: Whether token types distinguish the two texts of a pair.
        positions_key: The entry of `config.json` that says how many positions there are.
        causal: Whether a subword sees only what stands to its left.
        prefix_space: Whether the tokenizer has to be asked to begin every word with a space.
        square_mask: Whether the model takes a ready (examples, 1, subwords, subwords) attention mask: only where
            `transformers` makes its masks by `create_bidirectional_mask` alone, which passes such a mask on. DeBERTa
            computes with its mask, and ModernBERT derives a second one for its windows.
    """

    layers_key: str
    dropout_keys: tuple[str, ...]
    stack: str
    embeddings: tuple[str, ...] = ("embeddings",)
    shared: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    beside_first: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    needs_a_layer: bool = False
    attention: tuple[str, ...] = ()
    positions_from_pad: bool = False
    first_position: int = 0
    padding_free: bool = True
    positions_key: str = "max_position_embeddings"
    causal: bool = False
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
        return Parts(embeddings, tuple(layers), tuple(rest), tuple(_named(base, self.computed)))


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a LayerNorm, an RMSNorm, or an architecture's own of either."""
    return type(module).__name__.endswith("Norm")


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

CAUSAL = "a decoder with causal attention; each subword sees only what stands to its left."


def is_causal(model: ModelSpec) -> bool:
    """Whether a subword sees only what stands to its left."""
    if model.family in MODEL_FAMILIES:
        return MODEL_FAMILIES[model.family].causal
    from trials.models.load import family_of  # a plan of registered families needs no torch

    return family_of(model).causal


REFUSED: dict[str, str] = {}  # families that cannot be frozen layer by layer, with the reason
