"""What each freeze leaves to learn in published models, against counts worked out by hand from their layers."""

from __future__ import annotations

import torch
from transformers import AutoConfig

from tests.examples import each
from trials.freeze.strategies import FREEZE_STRATEGIES
from trials.models.family import MODEL_FAMILIES
from trials.models.load import LoadedModel, head_class

# distilbert-base-multilingual-cased with 10 labels: Emekaeze, notebook for English, "Task 2".
SIZES = {"vocab_size": 119_547, "n_layers": 6, "dim": 768, "n_heads": 12, "hidden_dim": 3_072, "num_labels": 10}


def multilingual() -> LoadedModel:
    """Without memory."""
    entries = AutoConfig.for_model("distilbert", **SIZES)
    with torch.device("meta"):
        model = head_class("tokens", entries)(entries)
    return LoadedModel(model, MODEL_FAMILIES["distilbert"].parts(model))


@each(
    "strategy, depth, trainable",
    [
        ("none", 0, 134_741_770),
        ("all_encoder", 6, 92_214_538),
        ("first_k", 2, 120_566_026),
        ("first_k", 4, 106_390_282),
        ("alternating", 3, 113_478_154),
    ],
)
def test_parameter_counts_are_those_of_study_1(strategy: str, depth: int, trainable: int) -> None:
    loaded = multilingual()
    for layer in FREEZE_STRATEGIES[strategy](6, depth):
        loaded.parts.encoder_layers[layer].requires_grad_(False)
    assert loaded.params() == 134_741_770
    assert loaded.trainable_params() == trainable
