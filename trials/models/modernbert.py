"""Encoders with rotary positions: ModernBERT (Warner et al. 2024) and NomicBERT (Nussbaum et al. 2024).

ModernBERT's layers attend to everything or to a window, by their index, and a norm follows the last one.
"""

from __future__ import annotations

from trials.models.bert import DROPOUT
from trials.models.family import MODEL_FAMILIES, ModelFamily

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
