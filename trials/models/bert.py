"""BERT (Devlin et al. 2019) and those built like it: RoBERTa, XLM-RoBERTa, CamemBERT, ELECTRA."""

from __future__ import annotations

from typing import Any

from trials.models.family import MODEL_FAMILIES, ModelFamily

DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def _family(**differences: Any) -> ModelFamily:
    same: dict[str, Any] = {"attention": ("query", "value"), "square_mask": True}
    return ModelFamily("num_hidden_layers", DROPOUT, "encoder.layer", **same, **differences)


MODEL_FAMILIES.register("bert")(_family(token_types=True))
MODEL_FAMILIES.register("roberta")(_family(positions_from_pad=True, prefix_space=True))
MODEL_FAMILIES.register("xlm-roberta")(_family(positions_from_pad=True))
MODEL_FAMILIES.register("camembert")(_family(positions_from_pad=True))
# The small models' tables are narrower than their layers.
MODEL_FAMILIES.register("electra")(_family(embeddings=("embeddings", "embeddings_project"), token_types=True))
