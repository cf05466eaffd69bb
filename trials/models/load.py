"""Build a token classifier from a model folder; a process reads each folder once."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForTokenClassification, AutoTokenizer, PreTrainedTokenizerBase

from trials.errors import ModelError
from trials.models.family import MODEL_FAMILIES, Parts
from trials.spec import ModelSpec

transformers.logging.set_verbosity_error()  # "newly initialized: classifier" is what a trial is about
transformers.logging.disable_progress_bar()

HEAD_STD = 0.02  # initializer_range of BERT and DistilBERT


@dataclass(frozen=True)
class LoadedModel:
    """A token classifier and where its parts are."""

    model: torch.nn.Module
    parts: Parts

    def params(self) -> int:
        """Parameters of the whole model."""
        return sum(p.numel() for p in self.model.parameters())

    def trainable_params(self) -> int:
        """Parameters that learn."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)


@lru_cache(maxsize=4)
def load_tokenizer(spec: ModelSpec) -> PreTrainedTokenizerBase:
    """The model's tokenizer, kept for the life of the process."""
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(spec.path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ModelError(f"{spec.path}: its tokenizer cannot be loaded: {error}") from error
    return tokenizer


def load_model(spec: ModelSpec, *, n_labels: int, dropout: float | None, init: torch.Generator) -> LoadedModel:
    """Pretrained encoder in fp32 on the CPU, with a new head drawn from `init`.

    Raises:
        ModelError: the weights cannot be read or do not fill the encoder.
    """
    model = copy.deepcopy(_template(spec, n_labels, dropout))
    loaded = LoadedModel(model, MODEL_FAMILIES[spec.family].parts(model))
    for module in loaded.parts.head:
        _draw_head(module, init)
    return loaded


def build_model(family: str, config: dict[str, Any], *, n_labels: int) -> LoadedModel:
    """A token classifier from configuration entries alone; inside `torch.device("meta")` it costs no memory."""
    model = AutoModelForTokenClassification.from_config(AutoConfig.for_model(family, **config, num_labels=n_labels))
    return LoadedModel(model, MODEL_FAMILIES[family].parts(model))


@lru_cache(maxsize=2)
def _template(spec: ModelSpec, n_labels: int, dropout: float | None) -> torch.nn.Module:
    keys = MODEL_FAMILIES[spec.family].dropout_keys
    model: torch.nn.Module
    overrides: dict[str, Any] = dict.fromkeys(keys, dropout) if dropout is not None else {}
    try:
        with torch.random.fork_rng():  # from_pretrained draws a head that load_model draws anew
            model, report = AutoModelForTokenClassification.from_pretrained(
                spec.path, num_labels=n_labels, dtype=torch.float32, local_files_only=True, use_safetensors=True,
                output_loading_info=True, **overrides,
            )  # fmt: skip
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelError(f"{spec.path}: its weights cannot be loaded: {error}") from error
    missing = [key for key in report["missing_keys"] if not key.startswith("classifier.")]
    if missing:
        raise ModelError(f"{spec.path}: its weights lack {', '.join(sorted(missing)[:3])}: not this architecture.")
    return model


@torch.no_grad()
def _draw_head(module: torch.nn.Module, init: torch.Generator) -> None:
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        else:
            parameter.normal_(0.0, HEAD_STD, generator=init)
