"""A model cut at a layer is compared with the whole one, and a difference is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from tests.examples import each
from tests.trials.conftest import save_tiny_model
from trials.model_checks.cut_model import difference_when_cut
from trials.models.family import Head
from trials.sources.places.model_draft import ModelDraft, find_model
from trials.spec import ModelSpec


def tiny(family: str, folder: Path, **changes: Any) -> ModelSpec:
    return find_model(ModelDraft(folder=str(save_tiny_model(family, folder / family, **changes))))


@each("head", get_args(Head))
@each("family", ["modernbert", "ernie", "eurobert", "megatron-bert", "esm"], quick=2)
def test_these_families_can_be_cut_at_every_layer(family: str, head: Head, tmp_path: Path) -> None:
    model = tiny(family, tmp_path)
    assert [difference_when_cut(model, head, depth) for depth in (1, 2, 3, 4)] == [None] * 4


# Their convolutions see the padding, of which cached states have none.
@pytest.mark.parametrize("family", ["convbert", "nystromformer"])
def test_a_cut_model_that_computes_something_else_is_found(family: str, tmp_path: Path) -> None:
    difference = difference_when_cut(tiny(family, tmp_path), "tokens", 2)
    assert difference == "the cut model's output differs by more than 1e-05"


def test_a_cut_model_that_fails_is_found(tmp_path: Path) -> None:
    model = tiny("layoutlmv3", tmp_path)
    assert difference_when_cut(model, "tokens", 2) == "the cut model fails (AttributeError)"


def test_the_proof_leaves_torchs_global_stream_alone(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    difference_when_cut(tiny("ernie", tmp_path), "tokens", 1)
    assert torch.equal(state, torch.get_rng_state())
