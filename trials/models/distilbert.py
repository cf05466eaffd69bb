"""DistilBERT (Sanh et al. 2019): no token types, no pooler."""

from __future__ import annotations

from trials.models.family import MODEL_FAMILIES, ModelFamily

MODEL_FAMILIES.register("distilbert")(
    ModelFamily(
        layers_key="n_layers",
        dropout_keys=("dropout", "attention_dropout", "seq_classif_dropout"),
        stack="transformer.layer",
        attention=("q_lin", "v_lin"),
        square_mask=True,
    )
)
