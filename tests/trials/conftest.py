"""Tiny pretrained models on disk, one a family, and trials of them that take a fraction of a second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from tests.builders import merged, write_tagged_treebank
from trials.draft import Lookup, TrialDraft
from trials.models.family import MODEL_FAMILIES
from trials.spec import TrialSpec

SIZES: dict[str, dict[str, Any]] = {
    "distilbert": {"n_layers": 4, "dim": 16, "n_heads": 2, "hidden_dim": 32},
    "bert": {"num_hidden_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32},
}
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'-"

TrialMaker = Callable[..., TrialSpec]


def save_tiny_model(family: str, folder: Path, *, positions: int = 32) -> Path:
    """A seeded random encoder of four layers of width 16, and a tokenizer of single characters."""
    vocabulary = [*SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIALS, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    config = AutoConfig.for_model(
        family, vocab_size=len(vocabulary), max_position_embeddings=positions, pad_token_id=0, **SIZES[family]
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        AutoModel.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for every registered family."""
    return {family: save_tiny_model(family, tmp_path_factory.mktemp(family)) for family in MODEL_FAMILIES}


@pytest.fixture(scope="session")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 train, 12 dev and 12 test sentences of 2 to 12 words, whose tag is a matter of their first letter."""
    return write_tagged_treebank(tmp_path_factory.mktemp("treebank"), train=40, dev=12, test=12)


@pytest.fixture
def make_trial(tiny_models: dict[str, Path], treebank: Path) -> TrialMaker:
    """A resolved trial of a tiny model, two epochs of six steps; `changes` are the draft's keys."""

    def make(family: str = "distilbert", **changes: Any) -> TrialSpec:
        draft: dict[str, Any] = {
            "data": {"folder": str(treebank)},
            "model": str(tiny_models[family]),
            "train_size": 24,
            "max_length": 32,
            "optim": {"lr": 1e-2, "batch_size": 4, "epochs": 2},
        }
        return TrialDraft.model_validate(merged(draft, changes)).resolve(Lookup())

    return make
