"""Export a trained trial as a model folder that `transformers.pipeline` loads."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from tokenizers import normalizers
from transformers import PreTrainedTokenizerFast

from trials.errors import ModelError
from trials.models.load import load_tokenizer
from trials.run import Trained
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.training.new_training import new_model

RECIPE = "permafrost.json"  # the trial's spec: what the model was trained on, and how


def load_trained(spec: TrialSpec, content: bytes) -> Trained:
    """Rebuild a trained model from the pretrained one and the weights that `run_trial` kept.

    Raises:
        ModelError: the weights are not those of this trial, or the pretrained model cannot be read.
    """
    try:
        tensors = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        labels = tuple(str(label) for label in json.loads(header["__metadata__"]["labels"]))
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"the stored weights of {spec.label} cannot be read ({error}).") from error
    loaded = new_model(spec, len(labels), torch.device("cpu"))
    trained = {name: p for name, p in loaded.model.named_parameters() if p.requires_grad}
    if {name: p.shape for name, p in trained.items()} != {name: tensor.shape for name, tensor in tensors.items()}:
        raise ModelError(f"the stored weights of {spec.label} are not those that it trains.")
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(tensors[name])
    return Trained(loaded, labels)


def export_model(spec: TrialSpec, trained: Trained, folder: Path, card: str) -> None:
    """Write weights (adapters merged), configuration, tokenizer, recipe and model card. Raises ModelError."""
    model: Any = trained.loaded.model.cpu().eval()
    if spec.lora is not None:
        from trials.models.adapters import merge_adapters  # peft is an extra

        merge_adapters(model)
    if not TASKS[spec.task].regression:
        model.config.id2label = dict(enumerate(trained.labels))
        model.config.label2id = {label: i for i, label in enumerate(trained.labels)}
    else:
        model.config.problem_type = "regression"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(folder)
        for weights in folder.glob("*.safetensors"):  # safetensors ignores the umask: only the owner could read them
            weights.chmod((folder / "config.json").stat().st_mode)
        _tokenizer(spec).save_pretrained(folder)
        recipe = {"task": spec.task, "lowercase": spec.lowercase, "max_length": spec.max_length}
        content = {"trial_id": spec.trial_id, **recipe, "spec": _without_paths(spec)}
        (folder / RECIPE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(card, encoding="utf-8")
    except OSError as error:
        raise ModelError(f"{folder}: cannot be written ({error.strerror}).") from error


def _without_paths(spec: TrialSpec) -> dict[str, Any]:
    """The spec as JSON values with bare file names, as a model folder that is shared must not reveal local paths."""
    content: dict[str, Any] = spec.model_dump(mode="json")
    for split in ("train", "dev", "test", "mismatched"):
        content["data"][split] = [Path(file).name for file in content["data"][split]]
    content["model"]["path"] = spec.model.name
    return content


def _tokenizer(spec: TrialSpec) -> Any:
    """The trial's tokenizer; it lower-cases its input itself if the trial lower-cased its words."""
    tokenizer: Any = load_tokenizer(spec.model, TASKS[spec.task].head)
    if not spec.lowercase:
        return tokenizer
    backend = copy.deepcopy(tokenizer.backend_tokenizer)
    before = [backend.normalizer] if backend.normalizer is not None else []
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
    # The model's own tokenizer class would rebuild the normaliser from its settings and so lose the lower-casing.
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        **tokenizer.special_tokens_map,
    )
