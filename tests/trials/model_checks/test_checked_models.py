"""What a plan finds out about a model, once per content, so that no trial has to fail for it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import LayoutLMv3Tokenizer

from tests.examples import each
from tests.trials.conftest import (
    TrialMaker,
    records_of,
    save_tiny_model,
    step_losses,
)
from trials.cache.encoding import encode_for
from trials.draft import DraftError
from trials.errors import ModelError
from trials.model_checks import checked_models, rehearsal
from trials.model_checks.checked_models import check_model
from trials.models.family import Head
from trials.sources.places.model_draft import ModelDraft, find_model


@pytest.fixture
def model(tiny_models: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the tiny BERT, to be changed."""
    return shutil.copytree(tiny_models["bert"], tmp_path / "mine")


def checked(folder: Path, head: Head = "tokens", *, allow_pickle: bool = False, pairs: bool = False) -> tuple[str, ...]:
    spec = find_model(ModelDraft(folder=str(folder), allow_pickle=allow_pickle))
    return check_model(spec, head, pairs=pairs)


def refusal(folder: Path, head: Head = "tokens", *, allow_pickle: bool = False, pairs: bool = False) -> str:
    with pytest.raises(ModelError) as error:
        checked(folder, head, allow_pickle=allow_pickle, pairs=pairs)
    assert "\n" not in str(error.value)
    return str(error.value).replace(str(folder), "MODEL")


def change_json(path: Path, **entries: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


# --- Weights


@each("n_bytes", [0, 8, 500, 40_000])
def test_truncated_weights_are_refused(n_bytes: int, tiny_models: dict[str, Path], tmp_path: Path) -> None:
    model = shutil.copytree(tiny_models["bert"], tmp_path / "mine")
    os.truncate(model / "model.safetensors", n_bytes)
    message = refusal(model)
    assert message.startswith("MODEL: its weights cannot be loaded (")
    assert message.endswith("). Fetch or copy them again.")


def test_a_tensor_of_another_shape_is_named_with_both(model: Path) -> None:
    change_json(model / "config.json", intermediate_size=48)
    assert refusal(model) == (
        "MODEL: its weights have bert.encoder.layer.0.intermediate.dense.bias of shape (32,), but its config.json "
        "needs (48,)."
    )


@each("kind", [torch.int8, torch.uint8, torch.float8_e4m3fn])
def test_weights_in_eight_bits_are_refused(kind: torch.dtype, model: Path) -> None:
    change_weights(
        model, lambda tensors: tensors.update({name: t.to(kind) for name, t in tensors.items() if t.ndim > 1})
    )
    assert "in 8 bits (" in (message := refusal(model))
    assert message.endswith("Use the model that they were made from, with weights in floating point.")


@each("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_pointer_in_place_of_a_file_is_named_with_the_command_that_fetches_it(name: str, model: Path) -> None:
    folder = shutil.copytree(model, model.parent / f"without {name}")
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert f"MODEL/{name}: " in (message := refusal(folder))
    assert "(a Git LFS pointer: `git lfs pull` fetches the file)" in message


def test_an_index_of_shards_that_are_not_there_is_of_no_use_beside_whole_weights(model: Path) -> None:
    index = {"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert checked(model) == ()


# --- Configuration


def test_quantised_weights_are_refused(model: Path) -> None:
    change_json(model / "config.json", quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True})
    assert refusal(model) == (
        "MODEL/config.json: quantization_config: its weights are quantised by 'bitsandbytes', so they cannot be "
        "trained. Use the model that they were made from, with weights in floating point."
    )


@each("beside", [["config.json", "model.safetensors"], []])
def test_an_adapter_is_refused_alone_and_beside_the_weights(beside: list[str], model: Path) -> None:
    for name in {"config.json", "model.safetensors"} - {*beside}:
        (model / name).unlink()
    (model / "adapter_config.json").write_text('{"base_model_name_or_path": "elsewhere"}')
    assert refusal(model).startswith("MODEL/adapter_config.json: the weights are those of an adapter")


def test_another_attention_is_replaced(model: Path, make_trial: TrialMaker) -> None:
    change_json(model / "config.json", attn_implementation="flash_attention_2")
    assert checked(model) == ()
    few: dict[str, Any] = {"train_size": 4, "optim": {"epochs": 1}}
    expected = step_losses(records_of(make_trial("bert", **few)))
    assert step_losses(records_of(make_trial(model=str(model), **few))) == expected


def test_what_a_configuration_asks_of_the_library_changes_no_number(model: Path, make_trial: TrialMaker) -> None:
    asked = {"output_attentions": True, "output_hidden_states": True, "gradient_checkpointing": True}
    change_json(model / "config.json", return_dict=False, torchscript=True, transformers_weights="other", **asked)
    changes: dict[str, Any] = {"train_size": 4, "optim": {"epochs": 1}, "freeze": {"strategy": "first_k", "depth": 1}}
    expected = step_losses(records_of(make_trial("bert", **changes)))
    assert step_losses(records_of(make_trial(model=str(model), **changes))) == expected


def test_layers_that_two_entries_count_differently_are_refused(tmp_path: Path) -> None:
    folder = save_tiny_model("gpt2", tmp_path / "gpt2")
    change_json(folder / "config.json", num_hidden_layers=2)
    assert refusal(folder) == "MODEL: config.json counts 4 layers, but its model has 2."


def test_an_entry_of_the_wrong_kind_is_refused(model: Path) -> None:
    change_json(model / "config.json", hidden_dropout_prob="0.1")
    assert refusal(model).startswith("MODEL: its config.json cannot be used (")


# --- Tokenizers


def without_padding(folder: Path, **specials: Any) -> None:
    config = folder / "tokenizer_config.json"
    entries = json.loads(config.read_text())
    config.write_text(json.dumps({key: value for key, value in entries.items() if "_token" not in key} | specials))


def test_a_padding_token_that_is_chosen_is_said(model: Path) -> None:
    without_padding(model, eos_token="[SEP]")
    note = "its tokenizer has no padding token; '[SEP]' stands in for it, which no subword attends to."
    assert checked(model) == (note,)


def test_a_tokenizer_without_anything_to_pad_with_is_refused(model: Path) -> None:
    without_padding(model)
    assert refusal(model) == ("MODEL: its tokenizer has no padding token. Add `pad_token` to tokenizer_config.json.")


def test_a_tokenizer_of_another_model_is_refused(model: Path) -> None:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    content = json.loads(tokenizer.to_str())
    content["model"]["vocab"] |= {"abc": 141, "abd": 142}
    (model / "tokenizer.json").write_text(json.dumps(content))
    assert refusal(model) == (
        "MODEL: its tokenizer has the subword 'abc' as number 141, but its table of embeddings only 141 rows. Use the "
        "tokenizer that belongs to the model."
    )


def test_a_panic_of_the_tokenizers_library_is_one_line(model: Path) -> None:
    content = json.loads((model / "tokenizer.json").read_text())
    content["post_processor"]["special_tokens"] = {}
    (model / "tokenizer.json").write_text(json.dumps(content))
    assert "its tokenizer" in refusal(model)


def test_a_tokenizer_that_wants_places_on_a_page_is_refused(tmp_path: Path) -> None:
    folder = save_tiny_model("layoutlmv3", tmp_path / "layoutlmv3")
    vocabulary = {word: i for i, word in enumerate(("<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "\u0120a"))}
    (folder / "tokenizer.json").unlink()
    LayoutLMv3Tokenizer(vocab=vocabulary, merges=[]).save_pretrained(folder)
    assert "its tokenizer does not encode plain text (" in refusal(folder)


# --- Where and how often


def test_a_plan_names_the_key_of_a_model_whose_trials_would_fail(model: Path, make_trial: TrialMaker) -> None:
    change_weights(model, lambda tensors: tensors.pop("embeddings.word_embeddings.weight"))
    with pytest.raises(
        DraftError, match=r"^model: .*its weights lack bert\.embeddings\.word_embeddings\.weight"
    ) as error:
        make_trial(model=str(model))
    assert error.value.exit_code == 3


def test_the_same_content_is_checked_once_whichever_folder_it_is_in(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    without_padding(model, eos_token="[SEP]")
    notes = checked(model)
    monkeypatch.setattr(rehearsal, "rehearse", lambda *given, **named: pytest.fail("checked again"))
    assert checked(shutil.copytree(model, tmp_path / "copy")) == notes
    monkeypatch.setattr(checked_models, "VERSION", checked_models.VERSION + 1)
    with pytest.raises(pytest.fail.Exception, match="checked again"):
        checked(model)


# --- Items of the task's own shape


@pytest.fixture
def one_type(tmp_path: Path) -> Path:
    """A BERT whose table of token types has one row."""
    return save_tiny_model("bert", tmp_path / "one-type", type_vocab_size=1)


def test_a_model_of_one_token_type_is_given_none_and_trains_on_pairs(
    one_type: Path, make_trial: TrialMaker, texts: Path
) -> None:
    assert checked(one_type, "text", pairs=True) == ()
    spec = make_trial(model=str(one_type), task="rte", data={"folder": str(texts)})
    assert encode_for(spec).train.examples[0].types is None
    assert len(records_of(spec)) == 2


def test_a_tokenizer_of_more_text_types_than_the_model_has_is_refused_for_pairs_alone(model: Path) -> None:
    third = json.loads((model / "tokenizer.json").read_text())
    for part in third["post_processor"]["pair"][3:]:
        next(iter(part.values()))["type_id"] = 2
    change_json(model / "tokenizer.json", **third)
    assert checked(model, "text") == ()
    assert "a step on pairs of texts with small random weights fails (index out of range" in refusal(
        model, "text", pairs=True
    )
