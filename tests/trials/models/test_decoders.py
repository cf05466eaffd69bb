"""Decoders as encoders: causal, with the library's heads, and with tokenizers that have no padding token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from tests.examples import each
from tests.trials.conftest import BERT_SIZES, TrialMaker, save_tiny_model
from trials.errors import ModelError
from trials.models.family import MODEL_FAMILIES, is_causal
from trials.models.load import load_model, load_tokenizer
from trials.run import run_trial
from trials.settings import ModelSpec
from trials.sources.local_models import ModelDraft, find_model

DECODERS = [family for family in MODEL_FAMILIES if MODEL_FAMILIES[family].causal]
IDS = torch.tensor([[2, 7, 9, 11, 12, 3], [2, 8, 3, 0, 0, 0]])
MASK = (IDS != 0).long()


def find(folder: Path) -> ModelSpec:
    return find_model(ModelDraft(folder=str(folder)))


def loaded(folder: Path, head: Any) -> Any:
    init = torch.Generator().manual_seed(0)
    return load_model(find(folder), head=head, n_outputs=3, dropout=0.0, init=init).model.eval()


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
    model, other = loaded(tiny_models[family], "tokens"), IDS[:1].clone()
    other[0, -1] = 14
    first, second = (model(input_ids=ids).logits[0, :2] for ids in (IDS[:1], other))
    assert torch.allclose(first, second, atol=1e-7) == MODEL_FAMILIES[family].causal


@each("family, causal", [("mistral", True), ("qwen3", True), ("ernie", False), ("esm", False)])
def test_an_unregistered_decoder_is_recognised(family: str, causal: bool, tmp_path: Path) -> None:
    sizes = BERT_SIZES | {"num_key_value_heads": 1}
    assert is_causal(find(save_tiny_model(family, tmp_path / family, **sizes))) == causal


@pytest.mark.parametrize("family", DECODERS)
@torch.no_grad()
def test_a_text_is_classified_at_its_last_subword_as_in_the_library(family: str, tiny_models: dict[str, Path]) -> None:
    model = loaded(tiny_models[family], "text")
    plain: Any = AutoModelForSequenceClassification.from_config(model.config).eval()
    plain.load_state_dict(model.state_dict())
    expected = plain(input_ids=IDS, attention_mask=MASK).logits
    torch.testing.assert_close(model(input_ids=IDS, attention_mask=MASK).logits, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("family", DECODERS)
@torch.no_grad()
def test_a_text_that_ends_in_the_padding_id_is_classified_there(family: str, tiny_models: dict[str, Path]) -> None:
    model, ids = loaded(tiny_models[family], "text"), torch.tensor([[2, 8, 0, 9], [2, 8, 0, 0]])
    together = model(input_ids=ids, attention_mask=torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])).logits
    alone = model(input_ids=ids[1:, :3], attention_mask=torch.ones(1, 3, dtype=torch.long)).logits
    torch.testing.assert_close(together[1:], alone, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("task", ["pos", "mrpc"])
def test_a_tokenizer_without_padding_pads_with_another_token(
    task: str, make_trial: TrialMaker, texts: Path, tmp_path: Path
) -> None:
    model = without(save_tiny_model("gpt2", tmp_path / "gpt2"), "pad_token")
    changes: dict[str, Any] = {"task": task, "data": {"folder": str(texts)}} if task == "mrpc" else {}
    spec = make_trial("gpt2", model=str(model), **changes)
    records = run_trial(spec, device=torch.device("cpu"))
    assert np.isfinite(next(records).dev_loss)
    assert load_tokenizer(spec.model, "tokens").pad_token == "[UNK]"


def test_a_tokenizer_that_has_no_token_to_pad_with_is_refused(tmp_path: Path) -> None:
    model = find(without(save_tiny_model("gpt2", tmp_path / "gpt2"), "pad_token", "unk_token", "eos_token"))
    with pytest.raises(ModelError, match=r"its tokenizer has no padding token\. Add `pad_token`"):
        load_tokenizer(model, "tokens")
