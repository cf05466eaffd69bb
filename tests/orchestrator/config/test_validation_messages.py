"""What pydantic found wrong, in the words of our error messages."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from orchestrator.config.yaml_document import faults
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.sweep import SweepSpec
from tests.builders import make_spec
from tests.examples import each
from trials.draft import TrialDraft
from trials.outside.validation_rules import RULES
from trials.spec import TrialSpec


def said(model: type[BaseModel], content: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as error:
        model.model_validate(content)
    return [each.text for each in faults(error.value, model)]


TRIAL = {"data": "UD_English-EWT-sample"}
AXIS = {"optim.lr": {"log_unifrom": [1, 2]}}


@each(
    "model, content, begins",
    [
        (SweepSpec, {}, "is missing. Add it."),
        (SweepSpec, {"name": "a", "sedes": [1]}, "unknown 'sedes', did you mean 'seeds'? Known: checkpoint, goal, "),
        (SweepSpec, {"name": "a", "space": AXIS}, "unknown 'log_unifrom', did you mean 'log_uniform'? Known: choice, "),
        (TrialDraft, TRIAL | {"optim": {"epoch": 3}}, "unknown 'epoch', did you mean 'epochs'? Known: batch_size, "),
        (TrialDraft, TRIAL | {"optim": {"lr": -1}}, "-1: must be above 0"),
        (TrialDraft, TRIAL | {"freeze": "frist_k"}, "unknown 'frist_k', did you mean 'first_k'?"),
        (
            TrialDraft,
            TRIAL | {"freeze": 3},
            "3: must be a mapping of some of: strategy, depth, layers, embeddings",
        ),
    ],
)
def test_a_wrong_key_or_value_is_told_once_with_what_was_meant(
    model: type[BaseModel], content: dict[str, Any], begins: str
) -> None:
    (text,) = [text for text in said(model, content) if text.startswith(begins)]
    assert text.count("frist_k") <= 1


PHRASES = ("Input should", "Value error,", "Field required", "Extra inputs", "Assertion failed", "type=",
           "For further information", "should have", "should match", "valid string", "validation error")  # fmt: skip
OURS = ("value_error", "assertion_error")

SWEEP: dict[str, Any] = {
    "name": "a", "trial": {"task": "pos"}, "seeds": [0],
    "space": {"optim.lr": [1e-3], "train_size": {"choice": [3, 4]}},
    "search": {"kind": "random", "cells": 2, "seed": 0, "objective": "score"},
    "schedule": {"kind": "asha", "first": 1, "factor": 3},
    "resources": {"cpus": 1, "gpus": 0, "device": "any"}, "checkpoint": {"epochs": 1, "minutes": 2, "auto": False},
    "goal": {"choose_depth": {"tolerance": 1, "confidence": 0.95}}, "limits": {"lost": 3, "alike": 2},
    "keep": "weights", "predictions": "auto",
}  # fmt: skip
CLUSTER: dict[str, Any] = {
    "address": "auto", "resources": {"cpus": 1}, "concurrency": 2, "store": "s", "limits": {"lost": 3},
}  # fmt: skip
DRAFT: dict[str, Any] = {
    "task": "pos", "model": {"folder": "starter"}, "freeze": {"strategy": "first_k", "depth": 2}, "train_size": 3,
    "data": {"name": "a", "train": ["a"], "dev": ["b"], "first": {"dev": 3}, "columns": {"text": 0, "label": "b"},
             "held_out": 0.1, "splits": {"train": "a"}, "release": "2.1", "scheme": "iob1"},
    "optim": {"lr": 0.1, "schedule": "linear", "max_grad_norm": 1, "layer_decay": 0.5}, "max_length": 9, "seed": 3,
    "lora": {"rank": 3, "alpha": 1, "layers": "all"}, "init_seed": 1, "frozen_dropout": True, "score": "accuracy",
}  # fmt: skip
WRONG: list[Any] = [
    None, True, -1, 3, 10**30, 0.5, math.inf, "", "x", "y" * 5_000, "a b/c", "\udc80", [], ["x"], [[]], [1.5, -2], {},
    {"x": 1}, {"choice": [1], "uniform": [0, 1]}, {"int_uniform": [1, "x"]}, {"1 x": {}}, {1: 2},
]  # fmt: skip


def mutations(content: Any) -> Iterator[Any]:
    """The content with every value in turn replaced by every wrong one, or left out; mappings with one key more."""
    for wrong in WRONG:
        yield copy.deepcopy(wrong)
    if isinstance(content, dict):
        yield {**content, "sedes": 1}
        for key, value in content.items():
            yield {k: v for k, v in content.items() if k != key}
            for changed in mutations(value):
                yield {**content, key: changed}


def errors_of(model: type[BaseModel], content: dict[str, Any]) -> Iterator[ValidationError]:
    for changed in mutations(content):
        try:
            model.model_validate(changed)
        except ValidationError as error:
            yield error


SPEC = make_spec().model_dump(mode="json")
MODELS: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (SweepSpec, SWEEP),
    (ClusterSpec, CLUSTER),
    (TrialDraft, DRAFT),
    (TrialSpec, SPEC),
]


@each("model, content", MODELS)
def test_whatever_is_wrong_is_said_in_our_words_at_a_key(model: type[BaseModel], content: dict[str, Any]) -> None:
    for error in errors_of(model, content):
        found = faults(error, model)
        assert found, error
        for text in (fault.text for fault in found):
            assert not [phrase for phrase in PHRASES if phrase in text], text
        parts = {str(part) for fault in found for part in fault.path}
        assert not [part for part in parts if part == "[key]" or part.endswith("]")], parts


def test_every_error_that_our_models_can_raise_has_a_rule() -> None:
    reached = {
        each["type"] for model, content in MODELS for error in errors_of(model, content) for each in error.errors()
    }
    assert reached - {*RULES} <= {*OURS}
    assert len(reached) >= 20
