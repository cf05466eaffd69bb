"""Models beyond the registered families and beyond one file of safetensors: what works, and what is refused by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoConfig, RobertaTokenizer

from tests.examples import each
from tests.trials.conftest import (
    BERT_SIZES,
    TrialMaker,
    records_of,
    save_tiny_model,
    save_tiny_tokenizer,
    step_losses,
    tiny_encoder,
)
from trials.cache.encoding import encode_for
from trials.errors import ModelError
from trials.models.load import load_tokenizer
from trials.sources.places.model_draft import ModelDraft, find_model
from trials.spec import ModelSpec, TrialSpec
from trials.tasks.task import NO_PREDICTION


def find(folder: Path, *, allow_pickle: bool = False) -> ModelSpec:
    return find_model(ModelDraft(folder=str(folder), allow_pickle=allow_pickle))


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as error:
        find(folder)
    return str(error.value)


def losses(spec: TrialSpec) -> list[float]:
    return step_losses(records_of(spec))


# --- Families nobody registered


@pytest.fixture(scope="module")
def ernie(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("ernie", tmp_path_factory.mktemp("ernie"))


def test_an_encoder_nobody_registered_trains_and_keeps_its_frozen_layers(ernie: Path, make_trial: TrialMaker) -> None:
    spec = make_trial(model=str(ernie), freeze={"strategy": "first_k", "depth": 3, "embeddings": True})
    assert (spec.model.family, spec.model.n_layers, spec.model.n_positions) == ("ernie", 4, 32)
    record = records_of(spec)[-1]
    layer = 4 * (16 * 16 + 16) + (16 * 32 + 32) + (32 * 16 + 16) + 2 * 2 * 16
    assert record.trainable_params == layer + 16 * 4 + 4
    assert np.isfinite(record.dev_loss)


def test_an_encoder_with_a_table_beside_its_layers_trains_only_what_is_not_frozen(
    make_trial: TrialMaker, tmp_path: Path
) -> None:
    model = str(save_tiny_model("layoutlmv3", tmp_path / "layoutlmv3"))
    spec = make_trial(model=model, max_length=24, freeze={"strategy": "all_encoder", "embeddings": True})
    records = records_of(spec)
    assert np.isfinite(records[-1].dev_loss)
    assert records[-1].step_losses[-1] < records[0].step_losses[0]
    assert records[-1].trainable_params == 16 * 4 + 4 + 2 * 32  # and two norms of its images


def write_config(folder: Path, family: str, **config: Any) -> Path:
    """A folder that could be a model's, but for what its configuration says."""
    AutoConfig.for_model(family, **config).save_pretrained(save_tiny_tokenizer(folder))
    (folder / "model.safetensors").write_bytes(b"never read")
    return folder


@each(
    "family, reason",
    [
        ("albert", "all of ALBERT's layers share one set of weights, so freezing one freezes them all"),
        ("t5", "the first layer of T5's encoder holds the relative positions of all layers"),
        ("mt5", "the first layer of T5's encoder holds the relative positions of all layers"),
        ("funnel", "Funnel shortens its input between layers"),
        ("longformer", "Longformer pads every input to a multiple of its attention window"),
        ("xlnet", "XLNet is trained with padding on the left"),
    ],
)
def test_other_architectures_that_cannot_be_frozen_by_layers_are_refused_in_one_line(
    family: str, reason: str, tmp_path: Path
) -> None:
    message = refusal(write_config(tmp_path / family, family))
    assert f"config.json: {family} is refused: {reason}" in message
    assert message.endswith(". Use another model.")
    assert "\n" not in message


@each(
    "family, config, said",
    [
        ("gptj", {}, "config.json of 'gptj' has no num_hidden_layers, n_layers, num_layers, so its layers are unknown"),
        ("gemma3", {}, "config.json of 'gemma3' is made of several models (text_config, vision_config), so its layers"),
        ("bart", {}, "'bart' is not an encoder alone but has a decoder"),
        ("vit", {}, "transformers has no head for tagging or classifying text with 'vit'"),
        (
            "xlm",
            {"emb_dim": 16, "n_heads": 2, "n_layers": 2, "n_words": 60},
            "its 2 encoder layers cannot be",
        ),
    ],
)
def test_a_model_whose_layers_cannot_be_told_is_refused_by_name(
    family: str, config: dict[str, Any], said: str, tmp_path: Path
) -> None:
    message = refusal(write_config(tmp_path / family, family, **config))
    assert said in message
    assert message.endswith("Use another model.")


def test_an_architecture_that_cannot_be_built_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "mine", "ernie", **(BERT_SIZES | {"num_attention_heads": 3}))
    assert refusal(folder).startswith(f"{folder}: 'ernie' cannot be built (")


# --- Positions and tokenizers


@each("pad", [0, 1, 3])
@each("family", ["roberta", "xlm-roberta", "camembert"])
def test_positions_that_count_from_the_padding_id_are_fewer_than_the_table(
    family: str, pad: int, tmp_path: Path
) -> None:
    config = BERT_SIZES | {"max_position_embeddings": 514, "pad_token_id": pad}
    assert find(write_config(tmp_path / "mine", family, **config)).n_positions == 514 - pad - 1


def test_the_last_usable_position_can_be_used(make_trial: TrialMaker, tmp_path: Path) -> None:
    for split in ("train", "dev"):
        (tmp_path / f"{split}.txt").write_text("a X\nb Y\n" * 50 + f"{split} X\n")
    spec = make_trial("roberta", data={"folder": str(tmp_path)}, train_size=1)
    assert spec.max_length == spec.model.n_positions == 32
    assert len(encode_for(spec).train.examples[0].ids) == 32
    assert np.isfinite(losses(spec)).all()


def save_byte_level_model(folder: Path) -> Path:
    """A RoBERTa whose byte-level tokenizer was trained on a few words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["abc aab Bca dde ceb aa ab ac bA cB"] * 20, trainer)
    learnt = json.loads(tokenizer.to_str())["model"]
    RobertaTokenizer(vocab=learnt["vocab"], merges=[tuple(pair) for pair in learnt["merges"]]).save_pretrained(folder)
    sizes = {"vocab_size": len(learnt["vocab"]), "pad_token_id": 1, "max_position_embeddings": 66}
    tiny_encoder("roberta", **sizes).save_pretrained(folder)
    return folder


def test_every_word_has_a_label_under_a_byte_level_tokenizer(make_trial: TrialMaker, tmp_path: Path) -> None:
    spec = make_trial("roberta", model=str(save_byte_level_model(tmp_path / "bytes")), max_length=64)
    data = encode_for(spec)
    assert all((example.at >= 0).all() for example in data.train.examples)
    pieces = load_tokenizer(spec.model, "tokens").convert_ids_to_tokens(data.train.examples[0].ids)
    assert all(pieces[place].startswith("\u0120") for place in data.train.examples[0].at)  # the space before a word
    report = records_of(spec)[-1].reports[0]
    assert NO_PREDICTION not in report.predicted


@each("content", ["", "{", "{}", "[]"])
def test_a_broken_tokenizer_is_named(content: str, ernie: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(ernie, tmp_path / "mine")
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match="mine: its tokenizer cannot be loaded"):
        load_tokenizer(find(folder), "tokens")


# --- Weights in other files


FEW: dict[str, Any] = {"train_size": 4, "optim": {"epochs": 1}}


@pytest.fixture
def pickled(tiny_models: dict[str, Path], tmp_path: Path) -> Path:
    """The tiny BERT with its weights as a pickle."""
    folder = shutil.copytree(tiny_models["bert"], tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def test_a_pickle_is_refused_unless_it_is_allowed(pickled: Path) -> None:
    assert refusal(pickled) == (
        f"{pickled}: its weights are a pickle (pytorch_model.bin), which can run arbitrary code when it is loaded. "
        "Save them as safetensors, or say `allow_pickle: true` if you trust where it came from."
    )
    assert find(pickled, allow_pickle=True).pickle


def test_an_allowed_pickle_trains_like_the_same_weights_as_safetensors(pickled: Path, make_trial: TrialMaker) -> None:
    spec = make_trial(model={"folder": str(pickled), "allow_pickle": True}, **FEW)
    assert losses(spec) == losses(make_trial("bert", **FEW))


@pytest.fixture
def sharded(tiny_models: dict[str, Path], tmp_path: Path) -> Path:
    """The tiny BERT with its weights in several files."""
    folder = shutil.copytree(tiny_models["bert"], tmp_path / "sharded")
    (folder / "model.safetensors").unlink()
    tiny_encoder("bert").save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*-of-*.safetensors"))) > 2
    return folder


def test_weights_in_several_files_train_like_the_same_weights_in_one(sharded: Path, make_trial: TrialMaker) -> None:
    assert losses(make_trial(model=str(sharded), **FEW)) == losses(make_trial("bert", **FEW))


def test_every_one_of_several_files_is_in_the_revision(sharded: Path) -> None:
    found = {find(sharded).revision}
    shards = sorted(sharded.glob("model-*.safetensors"))
    for shard in shards:
        with shard.open("ab") as file:
            file.write(b" ")
        found.add(find(sharded).revision)
    assert len(found) == 1 + len(shards)


def test_a_lost_one_of_several_files_is_named(sharded: Path) -> None:
    lost = sorted(sharded.glob("model-*.safetensors"))[1]
    lost.unlink()
    index = "model.safetensors.index.json"
    assert refusal(sharded) == f"{sharded}: {lost.name} is missing, which {index} names. Fetch the model again."


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_broken_index_of_weights_is_named(sharded: Path, content: str) -> None:
    (sharded / "model.safetensors.index.json").write_text(content)
    assert "model.safetensors.index.json: not a readable index of weights" in refusal(sharded)
