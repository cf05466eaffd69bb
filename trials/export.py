"""Export a trained trial as a model folder that `transformers.pipeline` loads, and predict with such a folder."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from tokenizers import normalizers
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

from trials.errors import ModelError
from trials.escaping.plain_files import read_json
from trials.hardware.device import default_device
from trials.models.adapters import merge_adapters
from trials.models.load import load_tokenizer
from trials.models.model_files import check_plain
from trials.run import Trained, new_model
from trials.spec import TrialSpec
from trials.tasks import TASKS

RECIPE = "permafrost.json"  # settings that prediction needs besides the standard files
_BATCH = 32  # sentences or texts that run together


def load_trained(spec: TrialSpec, content: bytes) -> Trained:
    """A trained model from the weights that `run_trial` kept and the pretrained model.

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
    merge_adapters(model)
    if not TASKS[spec.task].regression:
        model.config.id2label = dict(enumerate(trained.labels))
        model.config.label2id = {label: i for i, label in enumerate(trained.labels)}
    else:
        model.config.problem_type = "regression"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(folder)
        for weights in folder.glob("*.safetensors"):  # which safetensors lets nobody else read, whatever the umask
            weights.chmod((folder / "config.json").stat().st_mode)
        _tokenizer(spec).save_pretrained(folder)
        recipe = {"task": spec.task, "lowercase": spec.lowercase, "max_length": spec.max_length}
        content = {"trial_id": spec.trial_id, **recipe, "spec": _without_paths(spec)}
        (folder / RECIPE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(card, encoding="utf-8")
    except OSError as error:
        raise ModelError(f"{folder}: cannot be written ({error.strerror}).") from error


def _without_paths(spec: TrialSpec) -> dict[str, Any]:
    """The spec as JSON values, its files by their names alone: a model folder is made to be shared."""
    content: dict[str, Any] = spec.model_dump(mode="json")
    for split in ("train", "dev", "test", "mismatched"):
        content["data"][split] = [Path(file).name for file in content["data"][split]]
    content["model"]["path"] = spec.model.name
    return content


def _tokenizer(spec: TrialSpec) -> Any:
    """The trial's tokenizer; if the trial lower-cased its words, a tokenizer that does so itself."""
    tokenizer: Any = load_tokenizer(spec.model, TASKS[spec.task].head)
    if not spec.lowercase:
        return tokenizer
    backend = copy.deepcopy(tokenizer.backend_tokenizer)
    before = [backend.normalizer] if backend.normalizer is not None else []
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
    # Not the model's own class, which would rebuild the normaliser from its settings.
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        **tokenizer.special_tokens_map,
    )


@dataclass(frozen=True)
class LabelPrediction:
    """A predicted label, or number as text, and the label's probability (None for a number)."""

    label: str
    probability: float | None


class Predictor:
    """Predicts with a model folder: from `export_model`, or any token or sequence classifier of transformers.

    Attributes:
        task: The task it was trained for; without a recipe file `pos` for a token classifier, else `classification`.

    Raises:
        ModelError: no such folder, or not a classifier.
    """

    def __init__(self, folder: Path, *, device: torch.device | None = None) -> None:
        recipe = _recipe(folder)
        check_plain(folder)
        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            words = "TokenClassification" in " ".join(config.architectures or ())
            kind = AutoModelForTokenClassification if words else AutoModelForSequenceClassification
            self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            model = kind.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype=torch.float32
            )
        except (OSError, ValueError) as error:
            raise ModelError(f"{folder}: not a model folder that can be loaded: {error}") from error
        self.task: str = recipe.get("task") or ("pos" if words else "classification")
        self.tags_words = words
        self._lowercase: bool = recipe.get("lowercase", False)
        self._max_length: int = recipe.get("max_length") or min(self._tokenizer.model_max_length, 512)
        self._device = device or default_device()
        self._model: Any = model.to(self._device).eval()

    def words(self, sentences: Sequence[Sequence[str]]) -> list[list[LabelPrediction]]:
        """A label for every word of every sentence; a sentence longer than the model's input is tagged in pieces."""
        cased = [[word.lower() if self._lowercase else word for word in words] for words in sentences]
        pieces = [(i, piece) for i, words in enumerate(cased) for piece in self._pieces(words)]
        found: list[list[LabelPrediction]] = [[] for _ in sentences]
        order = sorted(range(len(pieces)), key=lambda k: -len(pieces[k][1]))
        tagged: dict[int, list[LabelPrediction]] = {}
        for start in range(0, len(order), _BATCH):
            group = order[start : start + _BATCH]
            tagged |= dict(zip(group, self._tag([pieces[k][1] for k in group]), strict=True))
        for k, (i, _) in enumerate(pieces):
            found[i] += tagged[k]
        return found

    def texts(self, texts: Sequence[str]) -> list[LabelPrediction]:
        """A label for every text; texts longer than the model's input are cut off."""
        found: list[LabelPrediction] = []
        for start in range(0, len(texts), _BATCH):
            cased = [text.lower() if self._lowercase else text for text in texts[start : start + _BATCH]]
            encoded = self._tokenizer(
                cased, truncation=True, max_length=self._max_length, padding=True, return_tensors="pt"
            )
            found += [self._read(row) for row in self._logits(encoded)]
        return found

    def _pieces(self, words: list[str]) -> list[list[str]]:
        """The words, halved until each piece fits the model's input."""
        ids = self._tokenizer(words, is_split_into_words=True, truncation=False, verbose=False)["input_ids"]
        if len(ids) <= self._max_length or len(words) < 2:
            return [words] if words else []
        middle = len(words) // 2
        return self._pieces(words[:middle]) + self._pieces(words[middle:])

    def _tag(self, sentences: list[list[str]]) -> list[list[LabelPrediction]]:
        encoded = self._tokenizer(
            sentences, is_split_into_words=True, truncation=True, max_length=self._max_length,
            padding=True, return_tensors="pt",
        )  # fmt: skip
        logits = self._logits(encoded)  # (sentences, subwords, labels)
        found = []
        for row, words in enumerate(sentences):
            at = {word: place for place, word in reversed(list(enumerate(encoded.word_ids(row)))) if word is not None}
            found.append([self._read(logits[row, at.get(word, 0)]) for word in range(len(words))])
        return found

    @torch.inference_mode()
    def _logits(self, encoded: Any) -> torch.Tensor:
        accepted = {name: encoded[name].to(self._device) for name in ("input_ids", "attention_mask")}
        if "token_type_ids" in encoded and getattr(self._model.config, "type_vocab_size", 0) > 1:
            accepted["token_type_ids"] = encoded["token_type_ids"].to(self._device)
        logits: torch.Tensor = self._model(**accepted).logits.float().cpu()
        return logits

    def _read(self, logits: torch.Tensor) -> LabelPrediction:
        if len(logits) == 1:
            return LabelPrediction(str(float(logits[0])), None)
        best = int(logits.argmax())
        return LabelPrediction(str(self._model.config.id2label[best]), float(logits.softmax(dim=-1)[best]))


def _recipe(folder: Path) -> dict[str, Any]:
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder}: no model folder there. Make one with `permafrost export-model --trial ID`.")
    try:
        content = read_json(folder / RECIPE)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{folder / RECIPE}: not readable ({error}). Export the model again.") from error
    if not isinstance(content, dict):
        raise ModelError(f"{folder / RECIPE}: not a JSON object. Export the model again.")
    return content
