"""DistilBERT (Sanh et al. 2019): no token types, no pooler."""

from __future__ import annotations

from typing import Any

from trials.models.family import MODEL_FAMILIES, ModelFamily


def _encoder(base: Any) -> tuple[Any, tuple[Any, ...]]:
    return base.embeddings, tuple(base.transformer.layer)


MODEL_FAMILIES.register("distilbert")(
    ModelFamily(
        layers_key="n_layers",
        dropout_keys=("dropout", "attention_dropout", "seq_classif_dropout"),
        encoder=_encoder,
        attention=("q_lin", "v_lin"),
    )
)
