"""What each freeze leaves to learn in published models, against counts worked out by hand from their layers."""

from __future__ import annotations

import functools
import json
from typing import Any

import torch
from transformers import AutoConfig

from tests.examples import each
from trials.freeze.strategies import FREEZE_STRATEGIES
from trials.models.family import MODEL_FAMILIES, Head
from trials.models.load import LoadedModel, head_class
from trials.spec import FreezeSpec
from trials.training.freeze_course import freeze_parts


def meta(family: str, config: dict[str, Any], n_outputs: int = 9, head: Head = "tokens") -> LoadedModel:
    """A model without memory, of which everything learns."""
    loaded = _meta(family, json.dumps(config), n_outputs, head)
    loaded.model.requires_grad_(True)
    return loaded


@functools.cache
def _meta(family: str, config: str, n_outputs: int, head: Head) -> LoadedModel:
    entries = AutoConfig.for_model(family, **json.loads(config), num_labels=n_outputs)
    with torch.device("meta"):
        model = head_class(head, entries)(entries)
    return LoadedModel(model, MODEL_FAMILIES[family].parts(model))


def freezing(depth: int, *, embeddings: bool) -> FreezeSpec:
    return FreezeSpec(strategy="first_k" if depth else "none", layers=tuple(range(depth)), embeddings=embeddings)


@each("depth", [0, 6, 12])
@each("embeddings", [False, True])
def test_electras_projection_belongs_to_its_embeddings(depth: int, embeddings: bool) -> None:
    config = {
        "num_hidden_layers": 12, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1_024,
        "embedding_size": 128, "vocab_size": 30_522,
    }  # fmt: skip
    loaded = meta("electra", config)  # ELECTRA-small: tables of width 128, then a projection to 256
    tables = (30_522 + 512 + 2) * 128 + 2 * 128 + (128 * 256 + 256)
    layer = 4 * (256 * 256 + 256) + (256 * 1_024 + 1_024) + (1_024 * 256 + 256) + 2 * 2 * 256
    freeze_parts(loaded.parts, freezing(depth, embeddings=embeddings))
    assert loaded.params() == tables + 12 * layer + 256 * 9 + 9
    assert loaded.trainable_params() == (0 if embeddings else tables) + (12 - depth) * layer + 256 * 9 + 9


# distilbert-base-multilingual-cased with 10 labels: Emekaeze, notebook for English, "Task 2".
MULTILINGUAL = {"vocab_size": 119_547, "n_layers": 6, "dim": 768, "n_heads": 12, "hidden_dim": 3_072}


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
    loaded = meta("distilbert", MULTILINGUAL, 10)
    for layer in FREEZE_STRATEGIES[strategy](6, depth):
        loaded.parts.encoder_layers[layer].requires_grad_(False)
    assert loaded.params() == 134_741_770
    assert loaded.trainable_params() == trainable
