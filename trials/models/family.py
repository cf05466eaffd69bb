"""A model family: where a model's parts are, its configuration, tokenizer and mask; which are registered or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trials.plugins.registry import Registry
from trials.spec import ModelSpec

if TYPE_CHECKING:
    from torch import nn


Head = Literal["tokens", "text"]  # a label for every word, or one for the whole input
StepMode = Literal["rows", "graphs", "padded", "plain"]
"""How training steps run, the fastest of a device first.

`rows`: sentences end to end, on a CPU. `graphs`: padded batches, steps replayed as CUDA graphs. `padded`: padded
batches, step by step. `plain`: the same, with attention in elementary operations instead of a fused kernel.
"""


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
        padding_free: Whether batches lie end to end on a CPU. Each model is tried when it is loaded
            (`models.padding_free`); forecasts go by this.
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

    def encoder(self, base: Any) -> tuple[nn.Module, list[nn.Module]]:
        """The embeddings and the layers of a model without its head."""
        # A parameter of the encoder itself, such as LayoutLMv3's class token, is part of its input.
        own = list(base.parameters(recurse=False))
        embeddings = _together([*_modules_at(base, self.embeddings), *_modules_at(base, self.shared)], own)
        layers = list(base.get_submodule(self.stack))
        layers[0] = _together([layers[0], *_modules_at(base, self.beside_first)])
        return embeddings, layers

    def parts(self, model: Any) -> Parts:
        """The three parts of a model of the family."""
        base = getattr(model, model.base_model_prefix)
        embeddings, layers = self.encoder(base)
        inside = {id(p) for module in (embeddings, *layers) for p in module.parameters()}
        rest = (m for m in model.modules() if any(id(p) not in inside for p in m.parameters(recurse=False)))
        return Parts(embeddings, tuple(layers), tuple(rest), tuple(_modules_at(base, self.computed)))


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a LayerNorm, an RMSNorm, or an architecture's own of either."""
    return type(module).__name__.endswith("Norm")


def _modules_at(base: Any, paths: tuple[str, ...]) -> list[nn.Module]:
    """The modules at these paths, as far as the model has them."""
    modules = dict(base.named_modules())
    return [modules[path] for path in paths if modules.get(path) is not None]


def _together(modules: list[nn.Module], parameters: Sequence[nn.Parameter] = ()) -> nn.Module:
    """One module that holds all of these; if there is only one, that module."""
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


# Modules are named as `transformers` names them. DistilBERT (Sanh et al. 2019) has no token types and no pooler.
DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob")
CLASSIFIER_DROPOUT = "classifier_dropout"  # dropout of the token head; 0.1 if the config has no such entry


def _bert(**differences: Any) -> ModelFamily:
    """BERT (Devlin et al. 2019) and those built like it."""
    usual: dict[str, Any] = {"dropout_keys": DROPOUT, "attention": ("query", "value"), "square_mask": True}
    return ModelFamily("num_hidden_layers", stack="encoder.layer", **(usual | differences))


# RoFormer, RemBERT and MPNet compute their attention themselves: they add their mask to the scores, so they take no
# square one, and their batches are padded.
_OWN_ATTENTION: dict[str, Any] = {"square_mask": False, "padding_free": False}
# Decoders as encoders: Llama (Touvron et al. 2023), Qwen2 (Yang et al. 2024) and GPT-2 (Radford et al. 2019). Their
# attention stays causal. A word is tagged at its first subword, as in every family; a text is classified at its last
# one, by a head of the library that takes one row for each text, so batches of texts are padded.
_LLAMA = ModelFamily(
    "num_hidden_layers", ("attention_dropout", CLASSIFIER_DROPOUT), "layers", ("embed_tokens",), after=("norm",),
    attention=("q_proj", "v_proj"), prefix_space=True, causal=True,
)  # fmt: skip
_FAMILIES = {
    "bert": _bert(token_types=True),
    "roberta": _bert(positions_from_pad=True, prefix_space=True),
    "xlm-roberta": _bert(positions_from_pad=True),
    "camembert": _bert(positions_from_pad=True),
    # The small models' tables are narrower than their layers.
    "electra": _bert(embeddings=("embeddings", "embeddings_project"), token_types=True),
    # Every layer turns its queries and keys by a table of sines, which is never learned.
    "roformer": _bert(
        embeddings=("embeddings", "embeddings_project"), shared=("encoder.embed_positions",),
        computed=("encoder.embed_positions",), token_types=True, **_OWN_ATTENTION,
    ),
    "rembert": _bert(
        dropout_keys=(*DROPOUT, "classifier_dropout_prob"),
        embeddings=("embeddings", "encoder.embedding_hidden_mapping_in"), token_types=True, **_OWN_ATTENTION,
    ),
    # Every layer adds the same table of relative positions; absolute ones start after the padding id, always 1.
    "mpnet": _bert(
        shared=("encoder.relative_attention_bias",), attention=("attn.q", "attn.v"), first_position=2, **_OWN_ATTENTION
    ),
    "distilbert": ModelFamily(
        "n_layers", ("dropout", "attention_dropout", "seq_classif_dropout"), "transformer.layer",
        attention=("q_lin", "v_lin"), square_mask=True,
    ),
    # DeBERTa-v2 and v3 (He et al. 2021) both call themselves so. The table of relative positions and its LayerNorm
    # serve every layer; the largest v2 models convolve beside their first.
    "deberta-v2": ModelFamily(
        "num_hidden_layers", (*DROPOUT, "pooler_dropout"), "encoder.layer",
        shared=("encoder.rel_embeddings", "encoder.LayerNorm"), beside_first=("encoder.conv",), needs_a_layer=True,
        attention=("query_proj", "value_proj"), padding_free=False,
    ),
    # With rotary positions (Warner et al. 2024). Its layers attend to everything or to a window, by their index.
    "modernbert": ModelFamily(
        "num_hidden_layers", ("embedding_dropout", "mlp_dropout", "attention_dropout", "classifier_dropout"), "layers",
        after=("final_norm",), attention=("Wqkv",),  # query, key and value in one
    ),
    # With rotary positions (Nussbaum et al. 2024).
    "nomic_bert": ModelFamily(
        "num_hidden_layers", DROPOUT, "layers", attention=("q_proj", "v_proj"), token_types=True, square_mask=True
    ),
    "llama": _LLAMA,
    "qwen2": _LLAMA,
    "gpt2": ModelFamily(
        "n_layer", ("resid_pdrop", "embd_pdrop", "attn_pdrop", CLASSIFIER_DROPOUT), "h", ("wte", "wpe", "drop"),
        positions_key="n_positions", after=("ln_f",), attention=("c_attn",),  # query, key and value in one
        prefix_space=True, causal=True,
    ),
}  # fmt: skip
for _name, _family in _FAMILIES.items():
    MODEL_FAMILIES.register(_name)(_family)

_T5 = (
    "the first layer of T5's encoder holds the relative positions of all layers, so freezing it freezes a part of "
    "every other one"
)
REFUSED = {  # families whose layers cannot be frozen one by one, with the reason for the error message
    "albert": "all of ALBERT's layers share one set of weights, so freezing one freezes them all",
    "funnel": "Funnel shortens its input between layers, so its layers have no state for every subword",
    "longformer": "Longformer pads every input to a multiple of its attention window, usually 512 subwords, so each "
    "costs as much as a long one; ModernBERT reads long inputs without this",
    "t5": _T5, "mt5": _T5, "longt5": _T5,
    "xlnet": "XLNet is trained with padding on the left, but inputs are padded on the right here",
    "bros": "BROS reads the place of each word on a page, which plain text does not have",
    "canine": "CANINE reads characters and shortens its input between layers, so its layers have no state for every "
    "subword",
    "layoutlmv2": "LayoutLMv2 reads the image of a page, which plain text does not have",
    "reformer": "Reformer trains only on inputs of one fixed length, usually 4096 subwords or more",
    "xmod": "X-MOD has adapters for each language and must be told which one to use, which trials do not",
}  # fmt: skip


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
