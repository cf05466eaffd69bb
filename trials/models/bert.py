"""BERT (Devlin et al. 2019) and those built like it.

RoFormer, RemBERT and MPNet compute their attention themselves: they add their mask to the scores, so they take no
square one, and their batches are padded.
"""

from __future__ import annotations

from typing import Any

from trials.models.family import MODEL_FAMILIES, ModelFamily

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
