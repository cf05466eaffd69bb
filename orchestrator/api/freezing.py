"""Apply an answer to a model in the user's own training code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrator.analysis.answer import Answer
from trials.draft import freeze_of_label
from trials.errors import ConfigError, ModelError, unknown_name
from trials.models.family import MODEL_FAMILIES, ModelFamily

if TYPE_CHECKING:
    from torch import nn


def freeze(model: Any, answer: Answer | str, *, frozen_dropout: bool = False) -> None:
    """Freeze a `transformers` model as an answer says. Call it before the optimizer is made.

    Frozen parts keep their weights and, unless the answer rests on trials with it, have no dropout, also after
    the model is set to training again, as `Trainer` does.

    Args:
        model: Of any architecture that is registered, with a head or without.
        answer: Of `api.answer`, or the label of a setting: ``"first 2+E"``, ``"layers 0,3"``.
        frozen_dropout: Whether frozen parts have dropout, where `answer` is a label; an answer knows.

    Raises:
        ConfigError: Nothing is recommended, or the label names no setting of this model.
        ModelError: The architecture is not registered.
    """
    label = answer if isinstance(answer, str) else answer.freeze
    if label is None:
        raise ConfigError("The answer recommends no setting yet; name one, as api.freeze(model, 'first 2+E').")
    dropout = frozen_dropout if isinstance(answer, str) else answer.frozen_dropout
    family = _registered_family(model.config.model_type)
    embeddings, layers = family.encoder(model.base_model)
    named = freeze_of_label(label, len(layers))
    if named is None:
        raise ConfigError(f"{label!r} is no setting of this model of {len(layers)} layers.")
    for part in [*([embeddings] if named.embeddings else []), *(layers[n] for n in named.layers)]:
        _freeze(part, dropout=dropout)


def _freeze(part: nn.Module, *, dropout: bool) -> None:
    part.requires_grad_(False)
    for module in () if dropout else part.modules():  # a collection of modules passes train() on to none of them
        module.eval()
        module.train = _stays(module)  # type: ignore[method-assign]


def _stays(module: nn.Module) -> Any:
    return lambda mode=True: module


def _registered_family(name: str) -> ModelFamily:
    if name not in MODEL_FAMILIES:
        raise ModelError(f"model_type: {unknown_name(name, MODEL_FAMILIES)}")
    return MODEL_FAMILIES[name]
