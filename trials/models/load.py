"""Load a model with a new task head from a model folder; a process reads each folder once."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import transformers
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

from trials.errors import ModelError
from trials.models.family import MODEL_FAMILIES, Head, ModelFamily, Parts
from trials.models.generic import generic_family
from trials.models.linear import use_fastest
from trials.settings import ModelSpec

transformers.logging.set_verbosity_error()  # a new classifier is intended
transformers.logging.disable_progress_bar()

HEAD_STD = 0.02  # initializer_range of BERT and DistilBERT
_CLASSES = {"tokens": AutoModelForTokenClassification, "text": AutoModelForSequenceClassification}


@dataclass(frozen=True)
class LoadedModel:
    """A model with a task head, and its parts."""

    model: nn.Module
    parts: Parts

    def params(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.model.parameters())

    def trainable_params(self) -> int:
        """Number of parameters that are trained."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)


def family_of(spec: ModelSpec) -> ModelFamily:
    """The registered family of a model, or one derived from its architecture."""
    return MODEL_FAMILIES[spec.family] if spec.family in MODEL_FAMILIES else _derived_family(spec)


@lru_cache(maxsize=4)
def _derived_family(spec: ModelSpec) -> ModelFamily:
    folder = Path(spec.path)
    return generic_family(folder, json.loads((folder / "config.json").read_text(encoding="utf-8")))


@lru_cache(maxsize=4)
def load_tokenizer(spec: ModelSpec, head: Head) -> PreTrainedTokenizerBase:
    """The model's tokenizer, cached in the process. Raises ModelError."""
    options = {"add_prefix_space": True} if head == "tokens" and family_of(spec).prefix_space else {}
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            spec.path, local_files_only=True, trust_remote_code=False, **options
        )
    except Exception as error:  # the tokenizers library raises a plain Exception for a broken file
        raise ModelError(f"{spec.path}: its tokenizer cannot be loaded: {error}") from error
    if not tokenizer.is_fast:
        raise ModelError(f"{spec.path}: its tokenizer has no fast version, which aligns words and subwords.")
    return tokenizer


def load_model(
    spec: ModelSpec, *, head: Head, n_outputs: int, dropout: float | None, init: torch.Generator
) -> LoadedModel:
    """The pretrained encoder in fp32 on the CPU, with a new head initialised from `init`.

    Raises:
        ModelError: the weights cannot be read or do not fill the encoder.
    """
    template, missing = _template(spec, head, n_outputs, dropout)
    model = copy.deepcopy(template)
    use_fastest(model)
    loaded = LoadedModel(model, family_of(spec).parts(model))
    names = {id(p): name for name, p in model.named_parameters()}
    prefix = f"{model.base_model_prefix}."
    for module in loaded.parts.head:
        for inner in module.modules():
            new = [names[id(p)] for p in inner.parameters(recurse=False)]
            if new and all(name in missing or not name.startswith(prefix) for name in new):
                _initialise(inner, init)
    return loaded


def build_model(family: str, config: dict[str, Any], *, head: Head = "tokens", n_outputs: int) -> LoadedModel:
    """A model built from configuration entries; inside `torch.device("meta")` it takes no memory."""
    model = _CLASSES[head].from_config(AutoConfig.for_model(family, **config, num_labels=n_outputs))
    return LoadedModel(model, MODEL_FAMILIES[family].parts(model))


@lru_cache(maxsize=2)
def _template(spec: ModelSpec, head: Head, n_outputs: int, dropout: float | None) -> tuple[Any, frozenset[str]]:
    """The model before its head is initialised, and the names of the parameters that its files lack."""
    family = family_of(spec)
    try:
        config = AutoConfig.from_pretrained(
            spec.path, local_files_only=True, trust_remote_code=False, num_labels=n_outputs
        )
        for key in family.dropout_keys if dropout is not None else ():
            setattr(config, key, dropout)
        with torch.random.fork_rng():  # from_pretrained initialises the head, load_model does so again
            model, report = _CLASSES[head].from_pretrained(
                spec.path, config=config, dtype=torch.float32, local_files_only=True, trust_remote_code=False,
                use_safetensors=not spec.pickle, ignore_mismatched_sizes=True, output_loading_info=True,
            )  # fmt: skip
    except UnpicklingError as error:  # torch reads only tensors, also with `allow_pickle`
        raise ModelError(
            f"{spec.path}: its pickle holds more than tensors and is not loaded. Use safetensors."
        ) from error
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelError(f"{spec.path}: its weights cannot be loaded: {error}") from error
    missing = frozenset(report["missing_keys"]) | {mismatch[0] for mismatch in report["mismatched_keys"]}
    names = {id(p): name for name, p in model.named_parameters()}
    head_names = {names[id(p)] for module in family.parts(model).head for p in module.parameters()}
    lost = sorted(missing & set(names.values()) - head_names)
    if lost:
        raise ModelError(f"{spec.path}: its weights lack {', '.join(lost[:3])}: not this architecture.")
    return model, missing


@torch.no_grad()
def _initialise(module: nn.Module, init: torch.Generator) -> None:
    for name, parameter in module.named_parameters(recurse=False):
        if name.endswith("bias"):
            parameter.zero_()
        elif isinstance(module, nn.LayerNorm):
            parameter.fill_(1.0)
        else:
            parameter.normal_(0.0, HEAD_STD, generator=init)
