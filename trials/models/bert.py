"""BERT (Devlin et al. 2019) and those built like it: RoBERTa, XLM-RoBERTa, CamemBERT, ELECTRA."""

from __future__ import annotations

from typing import Any

from trials.models.family import MODEL_FAMILIES, ModelFamily

DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def _encoder(base: Any) -> tuple[Any, tuple[Any, ...]]:
    return base.embeddings, tuple(base.encoder.layer)


def _electra_encoder(base: Any) -> tuple[Any, tuple[Any, ...]]:
    embeddings = base.embeddings
    if hasattr(base, "embeddings_project"):  # the small models' tables are narrower than their layers
        from torch import nn

        embeddings = nn.ModuleList([base.embeddings, base.embeddings_project])
    return embeddings, tuple(base.encoder.layer)


def _family(**differences: Any) -> ModelFamily:
    same: dict[str, Any] = {"layers_key": "num_hidden_layers", "dropout_keys": DROPOUT, "encoder": _encoder}
    return ModelFamily(**(same | {"attention": ("query", "value")} | differences))


MODEL_FAMILIES.register("bert")(_family(token_types=True))
MODEL_FAMILIES.register("roberta")(_family(positions_from_pad=True, prefix_space=True))
MODEL_FAMILIES.register("xlm-roberta")(_family(positions_from_pad=True))
MODEL_FAMILIES.register("camembert")(_family(positions_from_pad=True))
MODEL_FAMILIES.register("electra")(_family(encoder=_electra_encoder, token_types=True))
