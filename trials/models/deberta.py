"""DeBERTa-v2 and v3 (He et al. 2021). Both call themselves `deberta-v2`."""

from __future__ import annotations

from typing import Any

from trials.models.bert import DROPOUT
from trials.models.family import MODEL_FAMILIES, ModelFamily


def _encoder(base: Any) -> tuple[Any, tuple[Any, ...]]:
    """The table of relative positions and its LayerNorm serve every layer, so they count as embeddings."""
    from torch import nn

    shared = [getattr(base.encoder, name, None) for name in ("rel_embeddings", "LayerNorm")]
    layers = list(base.encoder.layer)
    if getattr(base.encoder, "conv", None) is not None:  # the largest v2 models convolve beside their first layer
        layers[0] = nn.ModuleList([layers[0], base.encoder.conv])
    return nn.ModuleList([base.embeddings, *(m for m in shared if m is not None)]), tuple(layers)


MODEL_FAMILIES.register("deberta-v2")(
    ModelFamily(
        layers_key="num_hidden_layers",
        dropout_keys=(*DROPOUT, "pooler_dropout"),
        encoder=_encoder,
        attention=("query_proj", "value_proj"),
    )
)
