"""DeBERTa-v2 and v3 (He et al. 2021). Both call themselves `deberta-v2`.

The table of relative positions and its LayerNorm serve every layer; the largest v2 models convolve beside their first.
"""

from __future__ import annotations

from trials.models.bert import DROPOUT
from trials.models.family import MODEL_FAMILIES, ModelFamily

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
