"""A trial of a store is found by its id or name, and runs again on what its row names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.api.model_export import _trained_again, find_trial
from orchestrator.store import ResultStore, open_store
from tests.builders import make_record, make_spec
from tests.examples import each
from tests.orchestrator.store.rows import trial
from trials.errors import ConfigError, NothingMatchedError, PermafrostError
from trials.record import EpochRecord

SPEC = make_spec()


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    store = open_store(tmp_path / "results", must_exist=False)
    failed = trial("bb2", state="failed")
    store.append("trials", [trial("aa1"), trial("aa2"), trial(SPEC.trial_id, spec=SPEC.model_dump_json()), failed])
    return store


def test_a_trial_is_found_by_its_id_the_beginning_of_it_or_its_name(store: ResultStore) -> None:
    for given in (SPEC.trial_id, SPEC.trial_id[:6], SPEC.label):
        assert find_trial(given, store=store.address) == SPEC


@pytest.mark.parametrize(
    ("given_id", "kind", "said"),
    [
        ("ffff", NothingMatchedError, "no trial 'ffff' in .*results. `permafrost status --trials` lists them"),
        ("aa", ConfigError, "'aa' matches 2 trials: aa1, aa2. Give more digits"),
        ("bb", NothingMatchedError, "trial bb2 ended failed. Only a completed one can be run again"),
    ],
)
def test_an_id_that_means_no_one_trial_is_refused(
    given_id: str, kind: type[PermafrostError], said: str, store: ResultStore
) -> None:
    with pytest.raises(kind, match=said):
        find_trial(given_id, store=store.address)


@each("recorded, device", [("cpu AMD EPYC", "cpu"), ("NVIDIA H200", "cuda"), (None, "cpu")])
def test_a_rerun_takes_the_kind_of_device_that_its_row_names(
    recorded: str | None, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    def run_trial(spec: Any, *, device: Any, **unused: Any) -> Iterator[EpochRecord]:
        taken.append(device.type)
        yield make_record(last=True)

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("trials.run.run_trial", run_trial)
    _trained_again(SPEC, {"device": recorded}, lambda record: None)
    assert taken == [device]
