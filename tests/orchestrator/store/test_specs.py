"""Specs that a store holds: valid values, or an error that names the trial."""

from __future__ import annotations

import json

import pytest

from orchestrator.store.contents import stored_spec
from tests.builders import make_spec
from tests.examples import each
from trials.errors import StoreError


def test_a_spec_comes_back_from_a_row_and_from_a_plan() -> None:
    spec = make_spec(seed=3)
    assert stored_spec(spec.model_dump_json(), spec.trial_id) == spec
    assert stored_spec(spec.model_dump(mode="json"), spec.trial_id) == spec


@each(
    "content, place",
    [
        (None, "spec: "),
        ("", "spec: is not JSON ("),
        ("[" * 100_000, "spec: is not JSON ("),
        ("3", "spec: "),
        ({}, "spec.data: is missing. Add it"),
        (json.dumps({"x": 1}), "spec.data: is missing. Add it"),
        (make_spec().model_dump() | {"seed": -1}, "spec.seed: -1: must be at least 0"),
        (make_spec().model_dump() | {"tomorrow": 1}, "spec.tomorrow: unknown 'tomorrow'"),
    ],
)
def test_what_is_none_is_refused_with_its_place(content: str | dict[str, object] | None, place: str) -> None:
    with pytest.raises(StoreError) as error:
        stored_spec(content, "9f2c")
    assert str(error.value).startswith(f"trial '9f2c' of the store: {place}")
    assert str(error.value).endswith("Its row or plan is broken, or of a newer version.")
