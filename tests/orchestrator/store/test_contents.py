"""Specs that a store holds are valid values, or an error that names the trial; its weights are found by their trial."""

from __future__ import annotations

import pytest

from orchestrator.storage.storage import Storage
from orchestrator.store.plans import stored_spec
from orchestrator.store.stored_tensors import WEIGHTS, find_weights, save_weights, weights_of
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
        ("[" * 100_000, "spec: is not JSON ("),
        ({}, "spec.data: is missing. Add it"),
        (make_spec().model_dump() | {"seed": -1}, "spec.seed: -1: must be at least 0"),
        (make_spec().model_dump() | {"tomorrow": 1}, "spec.tomorrow: unknown 'tomorrow'"),
    ],
)
def test_what_is_none_is_refused_with_its_place(content: str | dict[str, object] | None, place: str) -> None:
    with pytest.raises(StoreError) as error:
        stored_spec(content, "9f2c")
    assert str(error.value).startswith(f"trial '9f2c' of the store: {place}")
    assert str(error.value).endswith("Its row or plan is broken, or of a newer version.")


# --- The trained weights that a store keeps of a trial.


TRIAL, OTHER = "0123456789abcdef", "fedcba9876543210"


def test_a_trials_weights_are_those_of_its_latest_attempt_and_another_trial_has_none(storage: Storage) -> None:
    save_weights(storage, TRIAL, b"weights")
    assert (find_weights(storage, TRIAL), find_weights(storage, OTHER)) == (b"weights", None)
    for content in (b"first", b"second", b"second"):
        save_weights(storage, TRIAL, content)
    assert find_weights(storage, TRIAL) == b"second"
    assert len(weights_of(storage)[TRIAL]) == 1
    save_weights(storage, TRIAL, b"weights")
    storage.subfolder(WEIGHTS).write(weights_of(storage)[TRIAL][0], b"weighty")
    assert find_weights(storage, TRIAL) is None
