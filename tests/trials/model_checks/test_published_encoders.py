"""Encoders that people name first, with the facts of shape of their published configurations, as a plan sees them.

No weights are served, so these are not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.examples import each
from tests.hub_repos import model, point_at
from tests.servers import HubServer
from tests.trials.conftest import save_tiny_tokenizer
from trials.model_checks import rehearsal
from trials.model_checks.checked_models import check_model
from trials.models.load import family_of, has_token_types, head_class, head_config
from trials.sources.places.model_draft import find_model, named_model

BERT: dict[str, Any] = {
    "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12,
    "max_position_embeddings": 512, "type_vocab_size": 2, "pad_token_id": 0,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "dbmdz/bert-base-german-cased": BERT | {"model_type": "bert", "vocab_size": 31_102},
    "FacebookAI/xlm-roberta-base": BERT | {
        "model_type": "xlm-roberta", "vocab_size": 250_002, "max_position_embeddings": 514, "type_vocab_size": 1,
        "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5,
    },
    "answerdotai/ModernBERT-base": {
        "model_type": "modernbert", "vocab_size": 50_368, "hidden_size": 768, "intermediate_size": 1152,
        "num_attention_heads": 12, "num_hidden_layers": 22, "max_position_embeddings": 8192, "local_attention": 128,
        "global_attn_every_n_layers": 3, "pad_token_id": 50_283, "cls_token_id": 50_281, "sep_token_id": 50_282,
        "classifier_pooling": "mean",
    },
    "microsoft/deberta-v3-base": BERT | {
        "model_type": "deberta-v2", "vocab_size": 128_100, "type_vocab_size": 0, "relative_attention": True,
        "max_relative_positions": -1, "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True,
        "pos_att_type": "p2c|c2p", "position_biased_input": False, "layer_norm_eps": 1e-7,
    },
}  # fmt: skip
# Layers, positions, parameters of embeddings and of one layer, and whether pairs have token types.
NO_TENSORS = (2).to_bytes(8, "little") + b"{}"  # of safetensors
FACTS = {
    "dbmdz/bert-base-german-cased": (12, 512, 24_282_624, 7_087_872, True),
    "FacebookAI/xlm-roberta-base": (12, 512, 192_398_592, 7_087_872, False),
    "answerdotai/ModernBERT-base": (22, 8192, 38_683_392, 5_015_040, False),
    "microsoft/deberta-v3-base": (12, 512, 98_777_088, 7_087_872, False),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubServer]:
    tokenizer = save_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer"))
    files = {path.name: path.read_bytes() for path in tokenizer.iterdir()}
    repos = [
        model(name, files | {"config.json": json.dumps(config).encode(), "model.safetensors": NO_TENSORS})
        for name, config in CONFIGS.items()
    ]
    with HubServer(*repos) as hub:
        yield hub


@pytest.fixture
def hub(server: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HubServer:
    point_at(server, monkeypatch, tmp_path)
    monkeypatch.setattr(rehearsal, "_check_weights", lambda spec, head, config: None)
    return server


@each("name", FACTS)
def test_a_published_encoder_is_planned_with_its_shape(hub: HubServer, name: str) -> None:
    spec = find_model(named_model(name))
    layers, positions, embeddings, a_layer, types = FACTS[name]
    assert spec.source == f"hub:{name}@{hub.repos['models', name].commit()}"
    assert (spec.n_layers, spec.n_positions, has_token_types(spec)) == (layers, positions, types)
    config = head_config(spec, "tokens", 3, None)
    with torch.device("meta"):
        parts = family_of(spec).parts(head_class("tokens", config)(config))
    assert sum(p.numel() for p in parts.embeddings.parameters()) == embeddings
    assert sum(p.numel() for p in parts.encoder_layers[1].parameters()) == a_layer


@each("name", sorted(FACTS), quick=1)
def test_a_published_encoder_passes_the_rehearsal_of_words_and_of_pairs(hub: HubServer, name: str) -> None:
    spec = find_model(named_model(name))
    assert check_model(spec, "tokens") == check_model(spec, "text", pairs=True) == ()
