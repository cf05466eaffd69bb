"""Every model family gives three parts that are the whole model, and every freeze of it freezes just that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from tests.examples import each
from tests.trials.conftest import TrialMaker, load_tiny, save_tiny_model, save_tiny_tokenizer, tiny_encoder
from trials.cache.encoding import encode_for
from trials.models.family import MODEL_FAMILIES, Head
from trials.models.load import LoadedModel, load_model, load_tokenizer
from trials.run import run_trial
from trials.sources.places.model_draft import ModelDraft, find_model
from trials.spec import TrialSpec
from trials.training.batching import shuffled_batches
from trials.training.freeze_course import freeze_parts, train_mode
from trials.training.loop import Training, train_steps

N_LAYERS = 4
HEADS: tuple[Head, ...] = get_args(Head)
FREEZES: list[dict[str, Any]] = [
    {"strategy": "none"},
    {"strategy": "none", "embeddings": True},
    {"strategy": "last_k", "depth": 1},
    {"strategy": "layers", "layers": [1, 2]},
    {"strategy": "all_encoder", "embeddings": True},
]
HALF = {"strategy": "first_k", "depth": 2, "embeddings": True}

# Which layers a freeze means is no matter of the family.
PAIRS = [*(("bert", freeze) for freeze in FREEZES), *((family, HALF) for family in MODEL_FAMILIES)]


def load_parts(folder: Path, head: Head) -> LoadedModel:
    init = torch.Generator().manual_seed(0)
    return load_model(find_model(ModelDraft(folder=str(folder))), head=head, n_outputs=4, dropout=0.0, init=init)


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
@each("family", [*MODEL_FAMILIES, "ernie", "convbert", "nystromformer", "layoutlmv3"])  # four are not registered
def test_the_parts_of_a_family_are_disjoint_and_cover_every_parameter(family: str, head: Head, tmp_path: Path) -> None:
    loaded = load_parts(save_tiny_model(family, tmp_path / family), head)
    modules = [loaded.parts.embeddings, *loaded.parts.encoder_layers, *loaded.parts.head]
    found = [id(p) for module in modules for p in module.parameters()]
    assert len(loaded.parts.encoder_layers) == N_LAYERS
    assert len(found) == len(set(found))
    assert set(found) == {id(p) for p in loaded.model.parameters()}


def assert_just_the_frozen_parts_stay(spec: TrialSpec, head: Head, n_outputs: int) -> None:
    before, after = (load_tiny(spec, head=head, n_outputs=n_outputs) for _ in range(2))
    train_one_step(spec, after)
    layers = [after.parts.encoder_layers[i] for i in spec.freeze.layers]
    modules = [*layers, after.parts.embeddings] if spec.freeze.embeddings else layers
    frozen = {id(p) for module in (*modules, *after.parts.computed) for p in module.parameters()}
    for (name, old), new in zip(before.model.named_parameters(), after.model.parameters(), strict=True):
        assert torch.equal(old, new) == (id(new) in frozen), name


@each("family, freeze", PAIRS)
def test_a_step_leaves_frozen_tensors_bit_equal_and_moves_all_others(
    family: str, freeze: dict[str, Any], make_trial: TrialMaker
) -> None:
    assert_just_the_frozen_parts_stay(make_trial(family, freeze=freeze), "tokens", 4)


@each("family", list(MODEL_FAMILIES), quick=3)
def test_under_a_head_for_texts_just_the_frozen_parts_are_bit_equal_too(
    family: str, make_trial: TrialMaker, texts: Path
) -> None:
    spec = make_trial(family, task="mrpc", data={"folder": str(texts)}, freeze=HALF)
    assert_just_the_frozen_parts_stay(spec, "text", 2)


def test_bert_keeps_its_pretrained_pooler_and_other_families_draw_what_stands_there(make_trial: TrialMaker) -> None:
    kept, other = (load_tiny(make_trial("bert"), head="text", seed=seed) for seed in (0, 1))
    assert torch.equal(*(m.model.get_parameter("bert.pooler.dense.weight") for m in (kept, other)))
    assert not torch.equal(*(m.model.get_parameter("classifier.weight") for m in (kept, other)))
    drawn, again = (load_tiny(make_trial("distilbert"), head="text", seed=seed) for seed in (0, 1))
    assert not torch.equal(*(m.model.get_parameter("pre_classifier.weight") for m in (drawn, again)))


def test_a_pooler_that_the_folder_lacks_is_drawn_from_the_init_stream(make_trial: TrialMaker, tmp_path: Path) -> None:
    encoder = tiny_encoder("bert")
    encoder.pooler = None
    encoder.save_pretrained(save_tiny_tokenizer(tmp_path / "bare"))
    spec = make_trial("bert", model=str(tmp_path / "bare"))
    drawn = [load_tiny(spec, head="text", seed=seed).model.get_submodule("bert.pooler.dense") for seed in (0, 0, 1)]
    first, again, other = (module.get_parameter("weight") for module in drawn)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.std().item() == pytest.approx(0.02, rel=0.2)
    assert drawn[0].get_parameter("bias").abs().sum() == 0


# --- Decoders as encoders: causal, with the library's heads, and with tokenizers that have no padding token.


DECODERS = [family for family in MODEL_FAMILIES if MODEL_FAMILIES[family].causal]
IDS = torch.tensor([[2, 7, 9, 11, 12, 3], [2, 8, 3, 0, 0, 0]])
MASK = (IDS != 0).long()


def without(folder: Path, *names: str) -> Path:
    """A model whose tokenizer and configuration lack these special tokens."""
    for file in ("tokenizer_config.json", "special_tokens_map.json", "config.json"):
        if (folder / file).is_file():
            content = json.loads((folder / file).read_text())
            kept = {key: v for key, v in content.items() if key not in names and key.removesuffix("_id") not in names}
            (folder / file).write_text(json.dumps(kept))
    return folder


@each("family", list(MODEL_FAMILIES))
@torch.no_grad()
def test_a_family_is_causal_where_a_later_subword_changes_no_earlier_one(
    family: str, tiny_models: dict[str, Path]
) -> None:
    model, other = load_parts(tiny_models[family], "tokens").model.eval(), IDS[:1].clone()
    other[0, -1] = 14
    first, second = (model(input_ids=ids).logits[0, :2] for ids in (IDS[:1], other))
    assert torch.allclose(first, second, atol=1e-7) == MODEL_FAMILIES[family].causal


@pytest.mark.parametrize("family", DECODERS)
@torch.no_grad()
def test_a_text_is_classified_at_its_last_subword_as_in_the_library(family: str, tiny_models: dict[str, Path]) -> None:
    model: Any = load_parts(tiny_models[family], "text").model.eval()
    plain: Any = AutoModelForSequenceClassification.from_config(model.config).eval()
    plain.load_state_dict(model.state_dict())
    expected = plain(input_ids=IDS, attention_mask=MASK).logits
    torch.testing.assert_close(model(input_ids=IDS, attention_mask=MASK).logits, expected, atol=1e-6, rtol=1e-5)


def test_a_tokenizer_without_padding_pads_with_another_token(
    make_trial: TrialMaker, texts: Path, tmp_path: Path
) -> None:
    model = without(save_tiny_model("gpt2", tmp_path / "gpt2"), "pad_token")
    spec = make_trial("gpt2", model=str(model), task="mrpc", data={"folder": str(texts)})
    records = run_trial(spec, device=torch.device("cpu"))
    assert np.isfinite(next(records).dev_loss)
    assert load_tokenizer(spec.model, "tokens").pad_token == "[UNK]"
