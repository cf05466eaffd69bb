"""Look a model folder up without loading it: its family, sizes and revision, all from its files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from trials.errors import ModelError, unknown
from trials.models.family import MODEL_FAMILIES
from trials.spec import ModelSpec
from trials.starter import model_path

STARTER = "starter"
WEIGHTS = "model.safetensors"
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt")
# What decides the numbers; a README or an optimiser state beside it does not.
_IDENTITY_FILES = ("config.json", WEIGHTS, "tokenizer_config.json", *_TOKENIZER_FILES)


def find_model(name: str) -> ModelSpec:
    """The model that a YAML file names: `starter`, or a folder on this machine.

    Raises:
        ModelError: no such folder, a file of it missing or broken, or a family nobody registered.
    """
    folder = model_path() if name == STARTER else Path(name).expanduser().resolve()
    if not folder.is_dir():
        raise ModelError(f"no model folder at {folder}. Give a folder with config.json, or {STARTER!r}.")
    config = _config(folder)
    family = config.get("model_type", "")
    if family not in MODEL_FAMILIES:
        raise ModelError(f"{folder / 'config.json'}: model_type: {unknown(family, MODEL_FAMILIES)}")
    return ModelSpec(
        name=name if name == STARTER else folder.name,
        path=str(folder),
        revision=_revision(folder),
        family=family,
        n_layers=_number(folder, config, MODEL_FAMILIES[family].layers_key),
        n_positions=_number(folder, config, "max_position_embeddings"),
    )


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: not a readable model configuration ({error}).") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path}: not a model configuration, which is a JSON object.")
    return config


def _number(folder: Path, config: dict[str, Any], key: str) -> int:
    number = config.get(key)
    if not isinstance(number, int) or number < 1:
        raise ModelError(f"{folder / 'config.json'}: {key}: {number!r} is not a positive whole number.")
    return number


def _revision(folder: Path) -> str:
    if not (folder / WEIGHTS).is_file():
        raise ModelError(f"{folder}: has no {WEIGHTS}. Save the model with `save_pretrained`, as safetensors.")
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise ModelError(f"{folder}: has no tokenizer ({' or '.join(_TOKENIZER_FILES)}). Save it beside the weights.")
    digest = hashlib.sha256()
    for name in _IDENTITY_FILES:
        if (folder / name).is_file():
            with (folder / name).open("rb") as file:
                digest.update(name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
