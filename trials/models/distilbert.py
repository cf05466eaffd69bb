"""DistilBERT (Sanh et al. 2019): no token types, no pooler."""

from __future__ import annotations

from typing import Any

from trials.models.family import MODEL_FAMILIES, ModelFamily, Parts


def _parts(model: Any) -> Parts:
    base = model.distilbert
    return Parts(base.embeddings, tuple(base.transformer.layer), (model.classifier,))


MODEL_FAMILIES.register("distilbert")(
    ModelFamily(layers_key="n_layers", dropout_keys=("dropout", "attention_dropout"), parts=_parts)
)
