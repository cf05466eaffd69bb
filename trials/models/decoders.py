"""Decoders as encoders: GPT-2 (Radford et al. 2019), Llama (Touvron et al. 2023) and Qwen2 (Yang et al. 2024).

Their attention stays causal. A word is tagged at its first subword, as in every family; a text is classified at its
last one, by a head of the library that takes one row for each text, so batches of texts are padded.
"""

from __future__ import annotations

from typing import Any

from trials.models.family import MODEL_FAMILIES, ModelFamily

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
