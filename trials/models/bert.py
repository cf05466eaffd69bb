"""BERT (Devlin et al. 2019), without its pooler, which token classification does not use."""

from __future__ import annotations

from typing import Any

from trials.models.family import MODEL_FAMILIES, ModelFamily, Parts


def _parts(model: Any) -> Parts:
    base = model.bert
    return Parts(base.embeddings, tuple(base.encoder.layer), (model.classifier,))


MODEL_FAMILIES.register("bert")(
    ModelFamily(
        layers_key="num_hidden_layers",
        dropout_keys=("hidden_dropout_prob", "attention_probs_dropout_prob"),
        parts=_parts,
    )
)
