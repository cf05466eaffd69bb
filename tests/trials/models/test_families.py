"""Every model family gives three parts that are the whole model, and every freeze of it freezes just that."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.examples import each
from tests.trials.conftest import TrialMaker, save_tiny_model, save_tiny_tokenizer, tiny_encoder
from trials.encoding.tokenize import encode_for
from trials.errors import ModelError
from trials.freeze.strategies import FREEZE_STRATEGIES, LAYERS, possible_depths
from trials.models.family import MODEL_FAMILIES, Head
from trials.models.load import LoadedModel, load_model
from trials.sources.local_models import ModelDraft, find_model
from trials.spec import TrialSpec
from trials.training.batching import shuffled_batches
from trials.training.freezing import freeze_parts, frozen_modules, train_mode
from trials.training.loop import Training, train_steps

N_LAYERS = 4
HEADS: tuple[Head, ...] = get_args(Head)
FREEZES: list[dict[str, Any]] = [
    {"strategy": strategy, "depth": depth, "embeddings": embeddings}
    for strategy in FREEZE_STRATEGIES
    for depth in possible_depths(strategy, N_LAYERS)
    for embeddings in (False, True)
] + [{"strategy": LAYERS, "layers": [1, 2], "embeddings": False}]

# In the quick suite every freeze of one family, and three of each other.
PAIRS = [*itertools.product(MODEL_FAMILIES, FREEZES)]
QUICK = [pair for pair in PAIRS if pair[0] == "bert" or pair[1] in FREEZES[1::11]]
PAIRS.sort(key=lambda pair: pair not in QUICK)


def fresh(spec: TrialSpec, *, head: Head = "tokens", seed: int = 0, n_outputs: int = 5) -> LoadedModel:
    init = torch.Generator().manual_seed(seed)
    return load_model(spec.model, head=head, n_outputs=n_outputs, dropout=0.0, init=init)


def train_one_step(spec: TrialSpec, loaded: LoadedModel) -> None:
    data = encode_for(spec)
    freeze_parts(loaded.parts, spec.freeze)
    training = Training(
        loaded=loaded, optim=spec.optim, examples=data.train.examples,
        batches=shuffled_batches(8, 8, np.random.default_rng(0)), pad_id=0, device=torch.device("cpu"),
        precision=torch.autocast("cpu", enabled=False), n_steps=10,
    )  # fmt: skip
    train_mode(loaded.model, loaded.parts, spec.freeze, frozen_dropout=False)
    train_steps(training, 1)


@each("head", HEADS, quick=1)
@each("family", list(MODEL_FAMILIES))
def test_the_parts_of_a_family_are_disjoint_and_cover_every_parameter(
    family: str, head: Head, make_trial: TrialMaker
) -> None:
    loaded = fresh(make_trial(family), head=head)
    modules = [loaded.parts.embeddings, *loaded.parts.encoder_layers, *loaded.parts.head]
    found = [id(p) for module in modules for p in module.parameters()]
    assert len(loaded.parts.encoder_layers) == N_LAYERS
    assert len(found) == len(set(found))
    assert set(found) == {id(p) for p in loaded.model.parameters()}


@each("family_freeze", PAIRS, quick=len(QUICK))
def test_a_step_leaves_frozen_tensors_bit_equal_and_moves_all_others(
    family_freeze: tuple[str, dict[str, Any]], make_trial: TrialMaker
) -> None:
    family, freeze = family_freeze
    spec = make_trial(family, freeze=freeze)
    before, after = fresh(spec), fresh(spec)
    train_one_step(spec, after)
    layers = [after.parts.encoder_layers[i] for i in spec.freeze.layers]
    modules = [*layers, after.parts.embeddings] if spec.freeze.embeddings else layers
    frozen = {id(p) for module in (*modules, *after.parts.computed) for p in module.parameters()}
    for (name, old), new in zip(before.model.named_parameters(), after.model.parameters(), strict=True):
        assert torch.equal(old, new) == (id(new) in frozen), name


TEXT_FREEZES: list[dict[str, Any]] = [
    {"strategy": "none"},
    {"strategy": "first_k", "depth": 2, "embeddings": True},
    {"strategy": "all_encoder", "embeddings": True},
]


@each("freeze", TEXT_FREEZES, quick=1)
@each("family", list(MODEL_FAMILIES), quick=5)
def test_under_a_head_for_texts_just_the_frozen_parts_are_bit_equal_too(
    family: str, freeze: dict[str, Any], make_trial: TrialMaker, texts: Path
) -> None:
    spec = make_trial(family, task="mrpc", data={"folder": str(texts)}, freeze=freeze)
    before, after = fresh(spec, head="text", n_outputs=2), fresh(spec, head="text", n_outputs=2)
    train_one_step(spec, after)
    modules = (*frozen_modules(after.parts, spec.freeze), *after.parts.computed)
    frozen = {id(p) for module in modules for p in module.parameters()}
    for (name, old), new in zip(before.model.named_parameters(), after.model.parameters(), strict=True):
        assert torch.equal(old, new) == (id(new) in frozen), name


def test_bert_keeps_its_pretrained_pooler_and_other_families_draw_what_stands_there(make_trial: TrialMaker) -> None:
    kept, other = (fresh(make_trial("bert"), head="text", seed=seed) for seed in (0, 1))
    assert torch.equal(*(m.model.get_parameter("bert.pooler.dense.weight") for m in (kept, other)))
    assert not torch.equal(*(m.model.get_parameter("classifier.weight") for m in (kept, other)))
    drawn, again = (fresh(make_trial("distilbert"), head="text", seed=seed) for seed in (0, 1))
    assert not torch.equal(*(m.model.get_parameter("pre_classifier.weight") for m in (drawn, again)))


def test_a_pooler_that_the_folder_lacks_is_drawn_from_the_init_stream(make_trial: TrialMaker, tmp_path: Path) -> None:
    encoder = tiny_encoder("bert")
    encoder.pooler = None
    encoder.save_pretrained(save_tiny_tokenizer(tmp_path / "bare"))
    spec = make_trial("bert", model=str(tmp_path / "bare"))
    drawn = [fresh(spec, head="text", seed=seed).model.get_submodule("bert.pooler.dense") for seed in (0, 0, 1)]
    first, again, other = (module.get_parameter("weight") for module in drawn)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.std().item() == pytest.approx(0.02, rel=0.2)
    assert drawn[0].get_parameter("bias").abs().sum() == 0


@pytest.mark.parametrize("head", HEADS)
def test_weights_that_do_not_fill_the_encoder_are_refused(head: Head, tmp_path: Path) -> None:
    folder = save_tiny_model("bert", tmp_path / "cut")
    weights = load_file(folder / "model.safetensors")
    save_file({name: w for name, w in weights.items() if "layer.3." not in name}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"cut: its weights lack bert\.encoder\.layer\.3\..*: not this architecture"):
        load_model(
            find_model(ModelDraft(folder=str(folder))), head=head, n_outputs=5, dropout=0.0, init=torch.Generator()
        )


def test_loading_twice_gives_models_that_share_no_memory(make_trial: TrialMaker) -> None:
    first, second = fresh(make_trial()), fresh(make_trial())
    with torch.no_grad():
        next(first.model.parameters()).zero_()
    assert next(second.model.parameters()).abs().sum() > 0


def test_the_head_comes_from_the_init_stream_and_the_encoder_from_the_folder(make_trial: TrialMaker) -> None:
    spec = make_trial()
    one, other = fresh(spec, seed=0), fresh(spec, seed=1)
    heads, layers = zip(*((m.parts.head[0], m.parts.encoder_layers[0]) for m in (one, other)), strict=True)
    assert not torch.equal(*(next(head.parameters()) for head in heads))
    assert torch.equal(*(next(layer.parameters()) for layer in layers))


def test_loading_leaves_torchs_global_stream_alone(make_trial: TrialMaker, tiny_models: dict[str, Path]) -> None:
    state = torch.get_rng_state()
    fresh(make_trial("bert"))
    assert torch.equal(state, torch.get_rng_state())
