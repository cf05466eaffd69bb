"""A model family: where a model's parts are, its configuration, tokenizer and mask; which are registered or refused."""

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


# BERT (Devlin et al. 2019) and those built like it.
#
# RoFormer, RemBERT and MPNet compute their attention themselves: they add their mask to the scores, so they take no
# square one, and their batches are padded.

DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def _family(**differences: Any) -> ModelFamily:
    usual: dict[str, Any] = {"dropout_keys": DROPOUT, "attention": ("query", "value"), "square_mask": True}
    return ModelFamily("num_hidden_layers", stack="encoder.layer", **(usual | differences))


MODEL_FAMILIES.register("bert")(_family(token_types=True))
MODEL_FAMILIES.register("roberta")(_family(positions_from_pad=True, prefix_space=True))
MODEL_FAMILIES.register("xlm-roberta")(_family(positions_from_pad=True))
MODEL_FAMILIES.register("camembert")(_family(positions_from_pad=True))
# The small models' tables are narrower than their layers.
MODEL_FAMILIES.register("electra")(_family(embeddings=("embeddings", "embeddings_project"), token_types=True))
# Every layer turns its queries and keys by a table of sines, which is never learned.
MODEL_FAMILIES.register("roformer")(
    _family(
        embeddings=("embeddings", "embeddings_project"),
        shared=("encoder.embed_positions",),
        computed=("encoder.embed_positions",),
        token_types=True,
        square_mask=False,
        padding_free=False,
    )
)
MODEL_FAMILIES.register("rembert")(
    _family(
        dropout_keys=(*DROPOUT, "classifier_dropout_prob"),
        embeddings=("embeddings", "encoder.embedding_hidden_mapping_in"),
        token_types=True,
        square_mask=False,
        padding_free=False,
    )
)
# Every layer adds the same table of relative positions; absolute ones start after the padding id, which is always 1.
MODEL_FAMILIES.register("mpnet")(
    _family(
        shared=("encoder.relative_attention_bias",),
        attention=("attn.q", "attn.v"),
        first_position=2,
        square_mask=False,
        padding_free=False,
    )
)


# DistilBERT (Sanh et al. 2019): no token types, no pooler.

MODEL_FAMILIES.register("distilbert")(
    ModelFamily(
        layers_key="n_layers",
        dropout_keys=("dropout", "attention_dropout", "seq_classif_dropout"),
        stack="transformer.layer",
        attention=("q_lin", "v_lin"),
        square_mask=True,
    )
)


# DeBERTa-v2 and v3 (He et al. 2021). Both call themselves `deberta-v2`.
#
# The table of relative positions and its LayerNorm serve every layer; the largest v2 models convolve beside their
# first.

MODEL_FAMILIES.register("deberta-v2")(
    ModelFamily(
        layers_key="num_hidden_layers",
        dropout_keys=(*DROPOUT, "pooler_dropout"),
        stack="encoder.layer",
        shared=("encoder.rel_embeddings", "encoder.LayerNorm"),
        beside_first=("encoder.conv",),
        needs_a_layer=True,
        attention=("query_proj", "value_proj"),
        padding_free=False,
    )
)


# Encoders with rotary positions: ModernBERT (Warner et al. 2024) and NomicBERT (Nussbaum et al. 2024).
#
# ModernBERT's layers attend to everything or to a window, by their index, and a norm follows the last one.

MODEL_FAMILIES.register("modernbert")(
    ModelFamily(
        layers_key="num_hidden_layers",
        dropout_keys=("embedding_dropout", "mlp_dropout", "attention_dropout", "classifier_dropout"),
        stack="layers",
        after=("final_norm",),
        attention=("Wqkv",),  # query, key and value in one
    )
)
MODEL_FAMILIES.register("nomic_bert")(
    ModelFamily(
        layers_key="num_hidden_layers",
        dropout_keys=DROPOUT,
        stack="layers",
        attention=("q_proj", "v_proj"),
        token_types=True,
        square_mask=True,
    )
)


# Decoders as encoders: GPT-2 (Radford et al. 2019), Llama (Touvron et al. 2023) and Qwen2 (Yang et al. 2024).
#
# Their attention stays causal. A word is tagged at its first subword, as in every family; a text is classified at its
# last one, by a head of the library that takes one row for each text, so batches of texts are padded.

CLASSIFIER_DROPOUT = "classifier_dropout"  # of the token head; 0.1 where the config has no such entry
_LLAMA = ModelFamily(
    layers_key="num_hidden_layers",
    dropout_keys=("attention_dropout", CLASSIFIER_DROPOUT),
    stack="layers",
    embeddings=("embed_tokens",),
    after=("norm",),
    attention=("q_proj", "v_proj"),
    prefix_space=True,
    causal=True,
)
MODEL_FAMILIES.register("llama")(_LLAMA)
MODEL_FAMILIES.register("qwen2")(_LLAMA)
MODEL_FAMILIES.register("gpt2")(
    ModelFamily(
        layers_key="n_layer",
        positions_key="n_positions",
        dropout_keys=("resid_pdrop", "embd_pdrop", "attn_pdrop", CLASSIFIER_DROPOUT),
        stack="h",
        embeddings=("wte", "wpe", "drop"),
        after=("ln_f",),
        attention=("c_attn",),  # query, key and value in one
        prefix_space=True,
        causal=True,
    )
)


def pool_at_last_subword(model: Any) -> None:
    """Make a text head of the library read a text's last subword by the mask.

    It looks for the last one that is not the padding id, which fails for cached states, as they have no ids, and for a
    text that ends in an id that is used as padding.
    """
    getattr(model, model.base_model_prefix).register_forward_hook(_last_at_every_place, with_kwargs=True)


def _last_at_every_place(base: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
    """Put the state of a text's last subword at all of its places, (texts, subwords, width)."""
    states, mask = output.last_hidden_state, kwargs["attention_mask"]
    last = mask.sum(1, keepdim=True)[:, :, None] - 1  # (texts, 1, 1); padding stands on the right
    output.last_hidden_state = states.take_along_dim(last, 1).expand_as(states)


# Families whose layers cannot be frozen one by one, with the reason for the error message.

REFUSED["albert"] = "all of ALBERT's layers share one set of weights, so freezing one freezes them all"
REFUSED["funnel"] = "Funnel shortens its input between layers, so its layers have no state for every subword"
REFUSED["longformer"] = (
    "Longformer pads every input to a multiple of its attention window, usually 512 subwords, so each costs as much as "
    "a long one; ModernBERT reads long inputs without this"
)
for _t5 in ("t5", "mt5", "longt5"):
    REFUSED[_t5] = (
        "the first layer of T5's encoder holds the relative positions of all layers, so freezing it freezes a part of "
        "every other one"
    )
REFUSED["xlnet"] = "XLNet is trained with padding on the left, but inputs are padded on the right here"
REFUSED["bros"] = "BROS reads the place of each word on a page, which plain text does not have"
REFUSED["canine"] = (
    "CANINE reads characters and shortens its input between layers, so its layers have no state for every subword"
)
REFUSED["layoutlmv2"] = "LayoutLMv2 reads the image of a page, which plain text does not have"
REFUSED["reformer"] = "Reformer trains only on inputs of one fixed length, usually 4096 subwords or more"
REFUSED["xmod"] = "X-MOD has adapters for each language and must be told which one to use, which trials do not"
