"""What pydantic found wrong, in the words of our error messages."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from orchestrator.config.validation_messages import wording
from orchestrator.sweeps.sweep import SweepSpec
from trials.draft import TrialDraft


def said(model: type[BaseModel], content: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as error:
        model.model_validate(content)
    return [wording(e, model) for e in error.value.errors()]


def test_an_unknown_key_is_answered_with_the_nearest_one() -> None:
    (text,) = said(SweepSpec, {"name": "a", "sedes": [1]})
    assert text.startswith("unknown 'sedes', did you mean 'seeds'? Known: checkpoint, goal, keep, limits, name, ")


def test_an_unknown_key_deep_inside_is_compared_with_its_own_neighbours() -> None:
    (text,) = said(TrialDraft, {"data": "UD_English-EWT-sample", "optim": {"epoch": 3}})
    assert text.startswith("unknown 'epoch', did you mean 'epochs'? Known: batch_size, embedding_updates, epochs, ")


def test_an_unknown_key_of_the_spaces_axis_is_compared_with_the_kinds_of_axis() -> None:
    texts = said(SweepSpec, {"name": "a", "space": {"optim.lr": {"log_unifrom": [1, 2]}}})
    assert (
        "unknown 'log_unifrom', did you mean 'log_uniform'? Known: choice, int_uniform, log_uniform, uniform." in texts
    )


def test_a_missing_key_is_to_be_added() -> None:
    assert said(SweepSpec, {}) == ["is missing. Add it."]


def test_a_number_out_of_range_is_told_with_the_rule() -> None:
    (text,) = said(TrialDraft, {"data": "UD_English-EWT-sample", "optim": {"lr": -1}})
    assert text == "-1: Input should be greater than 0"


def test_a_value_that_our_own_message_holds_is_not_told_twice() -> None:
    (text,) = said(TrialDraft, {"data": "UD_English-EWT-sample", "freeze": "frist_k"})
    assert text.startswith("unknown 'frist_k', did you mean 'first_k'?")
    assert text.count("frist_k") == 1


def test_a_value_where_a_mapping_belongs_is_told_the_mappings_keys() -> None:
    (text,) = said(TrialDraft, {"data": "UD_English-EWT-sample", "freeze": 3})
    assert text == "3: must be a mapping of some of: strategy, depth, layers, embeddings."
