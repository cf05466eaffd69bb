"""A model folder is looked up by its files alone, and what it lacks is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.examples import each
from trials.errors import ModelError
from trials.settings import ModelSpec
from trials.sources.local_models import STARTER, ModelDraft
from trials.sources.local_models import find_model as find_draft
from trials.starter import model_path

CONFIG = {"model_type": "distilbert", "n_layers": 3, "max_position_embeddings": 64}


def write_model(folder: Path, **config: Any) -> Path:
    """A folder that looks like a model's; its weights are never read here."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "tokenizer.json").write_text("{}")
    return folder


def find_model(name: str | Path) -> ModelSpec:
    return find_draft(ModelDraft(folder=str(name)))


def refusal(name: str | Path) -> str:
    with pytest.raises(ModelError) as error:
        find_model(name)
    return str(error.value)


def test_the_starter_model_is_bundled() -> None:
    found = find_model(STARTER)
    assert (found.name, found.path, found.family) == ("starter", str(model_path()), "distilbert")
    assert (found.n_layers, found.n_positions) == (6, 128)


def test_a_folder_is_a_model_by_its_files(tmp_path: Path) -> None:
    found = find_model(write_model(tmp_path / "mine"))
    assert (found.name, found.n_layers, found.n_positions) == ("mine", 3, 64)
    assert len(found.revision) == 64


def test_the_revision_is_of_the_identity_files_and_not_of_the_place(tmp_path: Path) -> None:
    first, second = write_model(tmp_path / "a"), write_model(tmp_path / "b")
    (second / "README.md").write_text("about")
    assert find_model(first).revision == find_model(second).revision


@each("name", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
def test_another_file_that_matters_is_another_revision(tmp_path: Path, name: str) -> None:
    folder = write_model(tmp_path / "mine")
    before = find_model(folder).revision
    with (folder / name).open("a") as file:
        file.write(" ")
    assert find_model(folder).revision != before


def test_a_folder_that_is_not_there_is_named_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "none"
    way_out = "Give a folder with config.json, 'starter', or a repository of the hub as NAME or OWNER/NAME."
    assert refusal(path) == f"no model folder at {path}. {way_out}"


@each("content", [b"", b"{", b"[]", b"\xff"])
def test_a_broken_configuration_is_named(tmp_path: Path, content: bytes) -> None:
    (write_model(tmp_path / "mine") / "config.json").write_bytes(content)
    assert refusal(tmp_path / "mine").startswith(f"{tmp_path / 'mine' / 'config.json'}: not a ")


def test_a_family_nobody_registered_is_named_with_the_known_ones(tmp_path: Path) -> None:
    message = refusal(write_model(tmp_path / "mine", model_type="distilbret"))
    assert "model_type: unknown 'distilbret', did you mean 'distilbert'? Known: bert, camembert, " in message


@each("layers", [0, -1, "six", None])
def test_a_configuration_without_a_number_of_layers_is_named(tmp_path: Path, layers: object) -> None:
    message = refusal(write_model(tmp_path / "mine", n_layers=layers))
    assert message.endswith(f"config.json: n_layers: {layers!r} is not a positive whole number.")


def test_a_model_without_weights_is_named_with_the_way_out(tmp_path: Path) -> None:
    (write_model(tmp_path / "mine") / "model.safetensors").unlink()
    assert refusal(tmp_path / "mine").endswith(
        "has no model.safetensors. Save the model with `save_pretrained`, as safetensors."
    )


def test_a_model_without_tokenizer_is_named_with_the_way_out(tmp_path: Path) -> None:
    (write_model(tmp_path / "mine") / "tokenizer.json").unlink()
    assert refusal(tmp_path / "mine").endswith(
        "has no tokenizer (tokenizer.json, vocab.txt, vocab.json, spm.model, sentencepiece.bpe.model, "
        "spiece.model). Save it beside the weights."
    )


@each("key", ["n_layers", "num_experts", "n_routed_experts", "encoder_layers"])
def test_more_layers_or_experts_than_a_model_has_are_refused_with_the_bound(key: str, tmp_path: Path) -> None:
    message = refusal(write_model(tmp_path / "mine", **{key: 10**9}))
    assert f"config.json: {key}: 1000000000 is more than 2,000, the most that a model may have." in message


def test_a_padding_id_beyond_the_positions_is_refused(tmp_path: Path) -> None:
    message = refusal(write_model(tmp_path / "mine", model_type="roberta", num_hidden_layers=2, pad_token_id=10**9))
    assert "1,000,000,001 are used up by padding (pad_token_id)" in message
