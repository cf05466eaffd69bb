"""Tiny pretrained models on disk, one a family, and trials of them that take a fraction of a second."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from tests.builders import merged, write_tagged_treebank, write_texts
from trials.cache.encoding import encode_for
from trials.draft import Lookup, TrialDraft
from trials.models.family import MODEL_FAMILIES, Head
from trials.models.load import LoadedModel, load_model
from trials.record import EpochRecord
from trials.run import Trained, run_trial
from trials.spec import TrialSpec
from trials.training.freeze_course import train_mode
from trials.training.loop import Training
from trials.training.new_training import new_model, new_training, train_subset

BERT_SIZES = {"num_hidden_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
SIZES: dict[str, dict[str, Any]] = {
    "distilbert": {"n_layers": 4, "dim": 16, "n_heads": 2, "hidden_dim": 32},
    "bert": BERT_SIZES,
    "roberta": BERT_SIZES,
    "xlm-roberta": BERT_SIZES,
    "camembert": BERT_SIZES,
    "electra": BERT_SIZES | {"embedding_size": 8},
    "deberta-v2": BERT_SIZES | {
        "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False,
        "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True,
        "conv_kernel_size": 3, "conv_act": "gelu",
    },
    "roformer": BERT_SIZES | {"embedding_size": 8},
    "rembert": BERT_SIZES | {"input_embedding_size": 8, "output_embedding_size": 8},
    # A window of two subwords to either side; layers 0 and 3 attend to all.
    "modernbert": BERT_SIZES | {"local_attention": 4},
    "llama": BERT_SIZES | {"num_key_value_heads": 1},
    "qwen2": BERT_SIZES | {
        "num_key_value_heads": 1, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 2,
    },
    "gpt2": {"n_layer": 4, "n_embd": 16, "n_head": 2, "n_inner": 32},
    "layoutlmv3": BERT_SIZES | {"coordinate_size": 3, "shape_size": 2},
}  # fmt: skip
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'-"

CPU = torch.device("cpu")
MEASURED = {
    "setup_s", "prefix_s", "prefix_paid_s", "train_s", "eval_s", "energy_j", "peak_memory_bytes",
    "worker_memory_bytes", "time",
}  # fmt: skip

TrialMaker = Callable[..., TrialSpec]


VOCABULARY = [*SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]


def save_tiny_tokenizer(folder: Path) -> Path:
    """One subword a character."""
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIALS, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return folder


def tiny_encoder(family: str, *, positions: int = 32, **changes: Any) -> Any:
    """A seeded random encoder of four layers of width 16; `changes` are entries of its configuration."""
    known = [MODEL_FAMILIES[family]] if family in MODEL_FAMILIES else []
    unused = sum(one.positions_from_pad + one.first_position for one in known)
    sizes = {"vocab_size": len(VOCABULARY), "max_position_embeddings": positions + unused, "pad_token_id": 0}
    config = AutoConfig.for_model(family, **(sizes | SIZES.get(family, BERT_SIZES) | changes))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModel.from_config(config)


def save_tiny_model(family: str, folder: Path, *, positions: int = 32, **changes: Any) -> Path:
    """A tiny encoder and its tokenizer in a folder."""
    tiny_encoder(family, positions=positions, **changes).save_pretrained(folder)
    return save_tiny_tokenizer(folder)


def load_tiny(
    spec: TrialSpec, *, head: Head = "tokens", n_outputs: int = 4, dropout: float | None = 0.0, seed: int = 0
) -> LoadedModel:
    """A trial's model with the weights of its folder, and a head drawn by a seed."""
    init = torch.Generator().manual_seed(seed)
    return load_model(spec.model, head=head, n_outputs=n_outputs, dropout=dropout, init=init)


def start(spec: TrialSpec, device: torch.device = CPU) -> Training:
    """The training of a trial before its first step, on whole examples."""
    data = encode_for(spec)
    loaded = new_model(spec, len(data.labels), device)
    training = new_training(spec, loaded, data, train_subset(spec, data.train), device)
    train_mode(loaded.model, loaded.parts, spec.freeze, frozen_dropout=spec.frozen_dropout)
    return training


def records_of(spec: TrialSpec, **options: Any) -> list[EpochRecord]:
    """All records of a trial."""
    return list(run_trial(spec, device=CPU, **options))


def step_losses(records: Iterable[EpochRecord]) -> list[float]:
    """The losses of all steps."""
    return [loss for record in records for loss in record.step_losses]


def numbers(records: Iterable[EpochRecord]) -> list[dict[str, Any]]:
    """The records without what is measured by a clock or the kernel."""
    return [{key: value for key, value in asdict(record).items() if key not in MEASURED} for record in records]


def model_inside(records: Generator[EpochRecord, None, Trained]) -> LoadedModel:
    """The model of a trial that is under way, which nothing outside it holds."""
    loaded: LoadedModel = inspect.getgeneratorlocals(records)["loaded"]
    return loaded


def finished(records: Generator[EpochRecord, None, Trained]) -> tuple[list[EpochRecord], Trained]:
    """A whole trial: its records and what it leaves."""
    found = []
    while True:
        try:
            found.append(next(records))
        except StopIteration as end:
            return found, end.value


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """As in a trial of a sweep; two threads that wait for each other make a busy machine's tests many times slower."""
    torch.set_num_threads(1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node's cache of its own."""
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for every registered family."""
    return {family: save_tiny_model(family, tmp_path_factory.mktemp(family)) for family in MODEL_FAMILIES}


@pytest.fixture(scope="session")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 train, 12 dev and 12 test sentences of 2 to 12 words, whose tag is a matter of their first letter."""
    return write_tagged_treebank(tmp_path_factory.mktemp("treebank"), train=40, dev=12, test=12)


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 train, 12 dev and 12 test texts and pairs, whose class is a matter of their first letter."""
    return write_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="session")
def make_any_trial(tiny_models: dict[str, Path], treebank: Path) -> TrialMaker:
    """A resolved trial of a tiny model, two epochs of six steps; `changes` are the draft's keys."""
    usual = Lookup()  # a model that was checked once is not checked again, wherever a test has its cache

    def make(family: str = "distilbert", **changes: Any) -> TrialSpec:
        draft: dict[str, Any] = {
            "data": {"folder": str(treebank)},
            "model": str(tiny_models[family]),
            "train_size": 24,
            "max_length": 32,
            "optim": {"lr": 1e-2, "batch_size": 4, "epochs": 2},
        }
        lookup = usual
        if {"data", "model"} & changes.keys():  # a test's own files may change
            lookup = Lookup()
            lookup.check = usual.check
        return TrialDraft.model_validate(merged(draft, changes)).resolve(lookup)

    return make


@pytest.fixture
def make_trial(make_any_trial: TrialMaker) -> TrialMaker:
    """The same, for a test that changes what a trial meets."""
    return make_any_trial
