"""Every model family gives three parts that are the whole model, and every freeze of it freezes just that."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trials.conftest import TrialMaker
from trials.batching import shuffled_batches
from trials.encoding import encode_for
from trials.freeze.apply import freeze_parts, train_mode
from trials.freeze.strategies import FREEZE_STRATEGIES, LAYERS, possible_depths
from trials.loop import Training, train_steps
from trials.models.family import MODEL_FAMILIES
from trials.models.load import LoadedModel, build_model, load_model
from trials.spec import TrialSpec

N_LAYERS = 4
FREEZES: list[dict[str, Any]] = [
    {"strategy": strategy, "depth": depth, "embeddings": embeddings}
    for strategy in FREEZE_STRATEGIES
    for depth in possible_depths(strategy, N_LAYERS)
    for embeddings in (False, True)
] + [{"strategy": LAYERS, "layers": [1, 2], "embeddings": False}]


def fresh(spec: TrialSpec) -> LoadedModel:
    return load_model(spec.model, n_labels=5, dropout=0.0, init=torch.Generator().manual_seed(0))


def train_one_step(spec: TrialSpec, loaded: LoadedModel) -> None:
    data = encode_for(spec)
    freeze_parts(loaded.parts, spec.freeze)
    training = Training(
        loaded=loaded, optim=spec.optim, examples=data.train, batches=shuffled_batches(8, 8, np.random.default_rng(0)),
        pad_id=0, device=torch.device("cpu"), precision=torch.autocast("cpu", enabled=False), n_steps=10,
    )  # fmt: skip
    train_mode(loaded.model, loaded.parts, spec.freeze, frozen_dropout=False)
    train_steps(training, 1)


@pytest.mark.parametrize("family", list(MODEL_FAMILIES))
def test_the_parts_of_a_family_are_disjoint_and_cover_every_parameter(family: str, make_trial: TrialMaker) -> None:
    loaded = fresh(make_trial(family))
    modules = [loaded.parts.embeddings, *loaded.parts.encoder_layers, *loaded.parts.head]
    found = [id(p) for module in modules for p in module.parameters()]
    assert len(loaded.parts.encoder_layers) == N_LAYERS
    assert len(found) == len(set(found))
    assert set(found) == {id(p) for p in loaded.model.parameters()}


@pytest.mark.parametrize(("family", "freeze"), list(itertools.product(MODEL_FAMILIES, FREEZES)), ids=str)
def test_a_step_leaves_frozen_tensors_bit_equal_and_moves_all_others(
    family: str, freeze: dict[str, Any], make_trial: TrialMaker
) -> None:
    spec = make_trial(family, freeze=freeze)
    before, after = fresh(spec), fresh(spec)
    train_one_step(spec, after)
    layers = [after.parts.encoder_layers[i] for i in spec.freeze.layers]
    modules = [*layers, after.parts.embeddings] if spec.freeze.embeddings else layers
    frozen = {id(p) for module in modules for p in module.parameters()}
    for (name, old), new in zip(before.model.named_parameters(), after.model.parameters(), strict=True):
        assert torch.equal(old, new) == (id(new) in frozen), name


def test_loading_twice_gives_models_that_share_no_memory(make_trial: TrialMaker) -> None:
    first, second = fresh(make_trial()), fresh(make_trial())
    with torch.no_grad():
        next(first.model.parameters()).zero_()
    assert next(second.model.parameters()).abs().sum() > 0


def test_the_head_comes_from_the_init_stream_and_the_encoder_from_the_folder(make_trial: TrialMaker) -> None:
    spec = make_trial()
    one, other = (
        load_model(spec.model, n_labels=5, dropout=None, init=torch.Generator().manual_seed(seed)) for seed in (0, 1)
    )
    heads, layers = zip(*((m.parts.head[0], m.parts.encoder_layers[0]) for m in (one, other)), strict=True)
    assert not torch.equal(*(next(head.parameters()) for head in heads))
    assert torch.equal(*(next(layer.parameters()) for layer in layers))


def test_loading_leaves_torchs_global_stream_alone(make_trial: TrialMaker, tiny_models: dict[str, Path]) -> None:
    state = torch.get_rng_state()
    fresh(make_trial("bert"))
    assert torch.equal(state, torch.get_rng_state())


# distilbert-base-multilingual-cased with 10 labels: Emekaeze, notebook for English, "Task 2".
MULTILINGUAL = {"vocab_size": 119_547, "n_layers": 6, "dim": 768, "n_heads": 12, "hidden_dim": 3_072}


@pytest.mark.parametrize(
    ("strategy", "depth", "trainable"),
    [
        ("none", 0, 134_741_770),
        ("all_encoder", 6, 92_214_538),
        ("first_k", 2, 120_566_026),
        ("first_k", 4, 106_390_282),
        ("alternating", 3, 113_478_154),
    ],
)
def test_parameter_counts_are_those_of_study_1(strategy: str, depth: int, trainable: int) -> None:
    with torch.device("meta"):
        loaded = build_model("distilbert", MULTILINGUAL, n_labels=10)
    for layer in FREEZE_STRATEGIES[strategy](6, depth):
        loaded.parts.encoder_layers[layer].requires_grad_(False)
    assert loaded.params() == 134_741_770
    assert loaded.trainable_params() == trainable
