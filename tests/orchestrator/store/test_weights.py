"""The trained weights that a store keeps of a trial."""

from __future__ import annotations

from orchestrator.storage.storage import Storage
from orchestrator.store.contents import WEIGHTS, find_weights, save_weights, weights_of

TRIAL, OTHER = "0123456789abcdef", "fedcba9876543210"


def test_a_trials_weights_are_read_back_and_another_trial_has_none(storage: Storage) -> None:
    save_weights(storage, TRIAL, b"weights")
    assert (find_weights(storage, TRIAL), find_weights(storage, OTHER)) == (b"weights", None)


def test_those_of_a_later_attempt_replace_those_of_an_earlier_one(storage: Storage) -> None:
    for content in (b"first", b"second", b"second"):
        save_weights(storage, TRIAL, content)
    assert find_weights(storage, TRIAL) == b"second"
    assert len(weights_of(storage)[TRIAL]) == 1


def test_a_file_whose_bytes_changed_is_not_used(storage: Storage) -> None:
    save_weights(storage, TRIAL, b"weights")
    storage.at(WEIGHTS).write(weights_of(storage)[TRIAL][0], b"weighty")
    assert find_weights(storage, TRIAL) is None
