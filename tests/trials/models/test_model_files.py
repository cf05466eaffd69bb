"""A model is what was planned, whoever opens it and whenever; its revision holds all that its tokenizer reads."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from tests.examples import each
from tests.trials.conftest import SPECIALS, TrialMaker, save_tiny_model
from trials.cache import encoding
from trials.errors import ModelError
from trials.models import load
from trials.models.load import load_model, load_tokenizer
from trials.models.model_files import planned_files, revision_of
from trials.run import run_trial
from trials.sources.places.model_draft import ModelDraft, find_model
from trials.spec import ModelSpec


@pytest.fixture
def folder(tmp_path: Path, saved: Path) -> Path:
    return fresh(saved, tmp_path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("bert", tmp_path_factory.mktemp("saved"))


def fresh(saved: Path, tmp_path: Path) -> Path:
    """A model, and as in a new process nothing in memory."""
    _forget()
    return shutil.copytree(saved, tmp_path / "model")


def _forget() -> None:
    for cached in (load._template, load.load_tokenizer, load._derived_family, encoding._encode):
        cached.cache_clear()


def planned(folder: Path) -> ModelSpec:
    return find_model(ModelDraft(folder=str(folder)))


def load_weights(spec: ModelSpec) -> None:
    load_model(spec, head="tokens", n_outputs=3, dropout=None, init=torch.Generator())


def flip(path: Path) -> None:
    content, status = bytearray(path.read_bytes()), path.stat()
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # as `cp -p` and `rsync -t` do


EDITS: dict[str, Callable[[Path], object]] = {
    "weights with a flipped bit": lambda folder: flip(folder / "model.safetensors"),
    "another configuration": lambda folder: (folder / "config.json").write_text(
        (folder / "config.json").read_text().replace('"hidden_act": "gelu"', '"hidden_act": "relu"')
    ),
    "another tokenizer": lambda folder: (folder / "tokenizer.json").write_text(
        (folder / "tokenizer.json").read_text().replace('"##a"', '"##aa"')
    ),
    "a map of special tokens": lambda folder: (folder / "special_tokens_map.json").write_text('{"unk_token": "a"}'),
    "an adapter": lambda folder: (folder / "adapter_config.json").write_text("{}"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "no folder": shutil.rmtree,
    "a pipe": lambda folder: os.mkfifo(folder / "generation_config.json"),
}


@each("edit", EDITS)
@each("opens", [load_weights, lambda spec: load_tokenizer(spec, "tokens")])
def test_a_folder_that_was_edited_after_the_plan_is_refused_by_its_path(
    edit: str, opens: Callable[[ModelSpec], object], saved: Path, tmp_path: Path
) -> None:
    folder = fresh(saved, tmp_path)
    spec = planned(folder)
    opens(spec)
    _forget()
    EDITS[edit](folder)
    with pytest.raises(ModelError) as refused:
        opens(spec)
    assert str(folder) in str(refused.value)
    assert "launch again" in str(refused.value)


def test_a_file_that_changes_while_it_is_loaded_and_is_put_back_is_noticed(folder: Path) -> None:
    spec = planned(folder)
    weights = folder / "model.safetensors"

    def read() -> None:
        with planned_files(spec):
            flip(weights)
            flip(weights)

    with pytest.raises(ModelError, match="changed while they were read"):
        read()


def test_a_trial_leaves_no_states_of_another_model_in_the_cache(
    folder: Path, make_trial: TrialMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    freeze = {"strategy": "first_k", "depth": 2, "embeddings": True}
    spec = make_trial("bert", model=str(folder), freeze=freeze, frozen_dropout=False)
    flip(folder / "model.safetensors")
    with pytest.raises(ModelError, match="not those that the sweep was planned with"):
        next(run_trial(spec, device=torch.device("cpu")))
    assert not list((tmp_path / "cache").rglob("*.states"))


NAMES = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIALS, strict=True))
CHANGES_NOTHING: list[dict[str, Any]] = [
    {},
    NAMES,
    {role: {"content": token, "lstrip": False, "rstrip": False, "normalized": False} for role, token in NAMES.items()},
    {"additional_special_tokens": ["[MASK]"]},
    {"additional_special_tokens": []},
]
CHANGES_WORDS: list[dict[str, Any]] = [
    {"additional_special_tokens": ["ab"]},
    {"extra_special_tokens": {"image_token": "ab"}},
    NAMES | {"mask_token": "ab"},
    {"unk_token": "[PAD]"},
    {"bos_token": "e"},
]


@each("specials", CHANGES_NOTHING)
def test_a_map_of_special_tokens_that_says_nothing_new_leaves_old_ids_valid(
    specials: dict[str, Any], saved: Path, tmp_path: Path
) -> None:
    folder = fresh(saved, tmp_path)
    before, cut = revision_of(folder, pickle=False), words_of(folder)
    (folder / "special_tokens_map.json").write_text(json.dumps(specials))
    assert (revision_of(folder, pickle=False), words_of(folder)) == (before, cut)


def test_one_that_transformers_does_not_read_is_no_part_of_it(folder: Path) -> None:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"added_tokens_decoder": {}}))
    before = revision_of(folder, pickle=False)
    (folder / "special_tokens_map.json").write_text(json.dumps(CHANGES_WORDS[0]))
    assert revision_of(folder, pickle=False) == before


def test_a_tokenizer_json_for_a_version_counts_where_the_configuration_names_it(folder: Path) -> None:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"fast_tokenizer_files": ["tokenizer.4.0.json"]}))
    before = revision_of(folder, pickle=False)
    (folder / "tokenizer.4.0.json").write_text("{}")
    assert revision_of(folder, pickle=False) != before


def words_of(folder: Path) -> list[list[int]]:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    ids: list[list[int]] = tokenizer(["Fable about e", "ab [MASK] [UNK] é"])["input_ids"]
    return ids


@each("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "x.json"])
@each("target", ["pipe", "/dev/zero", "/proc/self/environ", "large", "socket"])
def test_what_is_no_plain_file_of_bounded_size_is_refused_before_it_is_read(
    name: str, target: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fresh(saved, tmp_path)
    path = folder / name
    path.unlink(missing_ok=True)
    if target == "pipe":
        os.mkfifo(path)
    elif target == "large":
        path.touch()
        os.truncate(path, 1 << 40)
    elif target == "socket":
        monkeypatch.chdir(folder)  # the path of a socket is short
        with socket.socket(socket.AF_UNIX) as served:
            served.bind(name)
    else:
        path.symlink_to(target)
    if (name, target) == ("x.json", "/proc/self/environ"):  # nobody reads it
        return
    with pytest.raises(ModelError) as refused:
        planned(folder)
    assert str(path) in str(refused.value) or "has no model.safetensors" in str(refused.value)
