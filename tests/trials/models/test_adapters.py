"""Low-rank adapters: they alone move where they are put, and merging them changes no prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.examples import each
from tests.trials.conftest import TrialMaker, finished, load_tiny, save_tiny_model
from trials.cache.encoding import encode_for
from trials.errors import ModelError
from trials.models.adapters import merge_adapters
from trials.run import run_trial
from trials.training.batching import collate

CPU = torch.device("cpu")
ATTENTION = 2 * 2 * (16 + 16)  # a layer of width 16, rank 2: query and value, each 2 x (16 + 16)
LINEAR = 4 * 2 * (16 + 16) + 2 * 2 * (16 + 32)  # four attention projections, and two dense layers between 16 and 32
HEAD = 16 * 4 + 4


def lora(**changes: Any) -> dict[str, Any]:
    return {"rank": 2, "alpha": 4.0, **changes}


def tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A module's parameters by the names they have without adapters, which are left out."""
    named = module.named_parameters()
    return {name.replace("base_layer.", ""): p for name, p in named if "lora_" not in name}


@each("family", ["distilbert", "deberta-v2", "electra"], quick=1)
@each("targets, a_layer", [("attention", ATTENTION), ("linear", LINEAR)])
@each("layers, depth, n_adapted", [("unfrozen", 3, 1), ("all", 0, 4)])
def test_so_many_parameters_learn(
    family: str, targets: str, a_layer: int, layers: str, depth: int, n_adapted: int, make_trial: TrialMaker
) -> None:
    freeze = {"strategy": "first_k", "depth": depth, "embeddings": True}
    spec = make_trial(
        family, freeze=freeze, lora=lora(layers=layers, targets=targets), train_size=4, optim={"epochs": 1}
    )
    record = next(run_trial(spec, device=CPU))
    assert record.trainable_params == n_adapted * a_layer + HEAD
    assert record.total_params == load_tiny(spec).params() + n_adapted * a_layer


@each("embeddings, targets", [(False, "linear"), (True, "attention")])
def test_only_adapters_and_what_else_learns_moves(embeddings: bool, targets: str, make_trial: TrialMaker) -> None:
    freeze = {"strategy": "first_k", "depth": 2, "embeddings": embeddings}
    spec = make_trial("bert", freeze=freeze, lora=lora(targets=targets), train_size=8)
    _, trained = finished(run_trial(spec, device=CPU))
    before, after = load_tiny(spec).parts, trained.loaded.parts
    for old, new in zip(before.encoder_layers, after.encoder_layers, strict=True):
        now = tensors(new)
        assert all(torch.equal(p, now[name]) for name, p in tensors(old).items())
    tables = zip(before.embeddings.parameters(), after.embeddings.parameters(), strict=True)
    assert {torch.equal(p, q) for p, q in tables} == {embeddings}
    adapters = [(n, p) for n, p in trained.loaded.model.named_parameters() if "lora_" in n]
    assert {name.split(".layer.")[1][0] for name, _ in adapters} == {"2", "3"}
    assert all(p.requires_grad and p.abs().sum() > 0 for _, p in adapters)  # B starts at 0, so it has moved


@each("family", ["distilbert", "deberta-v2"], quick=1)
@each("targets", ["attention", "linear"])
def test_the_merged_model_predicts_the_same_and_is_a_plain_one(
    family: str, targets: str, make_trial: TrialMaker
) -> None:
    spec = make_trial(family, lora=lora(targets=targets), train_size=8)
    _, trained = finished(run_trial(spec, device=CPU))
    model = trained.loaded.model.eval()
    batch = collate(encode_for(spec).dev.examples, 0, CPU)
    with torch.no_grad():
        before = batch.logits(model)
        merge_adapters(model)
        after = batch.logits(model)
    assert torch.allclose(before, after, atol=1e-5)
    assert set(model.state_dict()) == set(load_tiny(spec).model.state_dict())


def test_a_family_whose_projections_are_not_known_takes_linear_targets_only(
    make_trial: TrialMaker, tmp_path: Path
) -> None:
    folder = str(save_tiny_model("ernie", tmp_path / "ernie"))
    with pytest.raises(ModelError, match=r"^lora\.targets: the attention projections of this model are not known"):
        next(run_trial(make_trial(model=folder, lora=lora()), device=CPU))
    freeze = {"strategy": "none", "embeddings": True}
    spec = make_trial(model=folder, freeze=freeze, lora=lora(targets="linear"))
    assert next(run_trial(spec, device=CPU)).trainable_params == 4 * LINEAR + HEAD
