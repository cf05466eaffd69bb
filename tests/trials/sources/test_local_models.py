"""A model folder is looked up by its files alone, and what it lacks is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.examples import each, refusal_of
from trials.errors import ModelError
from trials.sources.places.model_draft import ModelDraft
from trials.sources.places.model_draft import find_model as find_draft
from trials.spec import ModelSpec

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


refusal = refusal_of(find_model, ModelError)


def test_a_folder_is_a_model_by_its_files(tmp_path: Path) -> None:
    found = find_model(write_model(tmp_path / "mine"))
    assert (found.name, found.n_layers, found.n_positions) == ("mine", 3, 64)
    assert len(found.revision) == 64


@each(
    "config, message",
    [
        (
            {"model_type": "distilbret"},
            "model_type: unknown 'distilbret', did you mean 'distilbert'? Known: bert, camem",
        ),
        *(({"n_layers": n}, f"n_layers: {n!r} is not a positive whole number.") for n in (0, -1, "six", None)),
        *(
            ({key: 10**9}, f"config.json: {key}: 1000000000 is more than 2,000, the most that a model may have.")
            for key in ("n_layers", "num_experts", "n_routed_experts", "encoder_layers")
        ),
        (
            {"model_type": "roberta", "num_hidden_layers": 2, "pad_token_id": 10**9},
            "1,000,000,001 are used up by padding (pad_token_id)",
        ),
    ],
)
def test_a_configuration_that_no_model_has_is_named(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    assert message in refusal(write_model(tmp_path / "mine", **config))


@each("content", [b"", b"{", b"[]", b"\xff"])
def test_a_broken_configuration_is_named(tmp_path: Path, content: bytes) -> None:
    (write_model(tmp_path / "mine") / "config.json").write_bytes(content)
    assert refusal(tmp_path / "mine").startswith(f"{tmp_path / 'mine' / 'config.json'}: not a ")


def test_what_a_folder_lacks_is_named_with_the_way_out(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    assert refusal(folder).startswith(f"no model folder at {folder}. Give a folder with config.json, 'starter', or a")
    (write_model(folder) / "tokenizer.json").unlink()
    assert "has no tokenizer (tokenizer.json, vocab.txt, vocab.json, spm.model, sentencepiece" in refusal(folder)
    (folder / "model.safetensors").unlink()
    assert refusal(folder).endswith("no model.safetensors. Save the model with `save_pretrained`, as safetensors.")


def test_what_is_nearly_a_model_is_named_with_the_way_to_one(tmp_path: Path) -> None:
    files = {
        "lora/adapter_config.json": '{"base_model_name_or_path": "bert-base-cased"}',
        "models--a--b/snapshots/c0ffee/config.json": "{}", "google/bert_config.json": "{}",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert "Merge it into its model, 'bert-base-cased' (`merge_and_unload` of peft)" in refusal(tmp_path / "lora")
    assert "models--a--b/snapshots/c0ffee: give that folder" in refusal(tmp_path / "models--a--b")
    assert "bert_config.json: is no configuration of transformers" in refusal(tmp_path / "google")
