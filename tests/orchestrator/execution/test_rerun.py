"""A trial of a store is found by its id, and two runs of it are compared number by number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.execution.rerun import Difference, Row, differences, find_trial, rerun
from orchestrator.execution.trial_rows import epoch_row
from orchestrator.store import ResultStore, open_store
from orchestrator.store.schema import COMPUTED, EPOCHS, METRICS
from tests.builders import make_record, make_spec
from tests.examples import each
from tests.orchestrator.store.rows import trial
from trials.errors import ConfigError, NothingMatchedError, PermafrostError
from trials.record import EpochRecord
from trials.starter import model_path, treebank_path

SPEC = make_spec()
MEASURED = {
    "frozen_layers", "mean_frozen_layers",  # older rows lack it
    "checkpoint_error",
    "trial_id", "attempt", "setup_s", "prefix_s", "prefix_paid_s", "training_flops", "train_s", "eval_s", "energy_j",
    "peak_memory_bytes", "worker_memory_bytes", "time",
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    store = open_store(tmp_path / "results", must_exist=False)
    failed = trial("bb2", state="failed")
    store.append("trials", [trial("aa1"), trial("aa2"), trial(SPEC.trial_id, spec=SPEC.model_dump_json()), failed])
    return store


def rows(*steps: int, **changes: Any) -> list[dict[str, Any]]:
    return [epoch_row(SPEC, 1, make_record(step=step, **changes)) for step in steps]


def test_every_column_is_either_compared_or_measured() -> None:
    assert {"step", *COMPUTED["epochs"]} | MEASURED == set(EPOCHS.names)
    assert not {"step", *COMPUTED["epochs"]} & MEASURED


# --- Which trial


def test_a_trial_is_found_by_the_beginning_of_its_id(store: ResultStore) -> None:
    for given_id in (SPEC.trial_id, SPEC.trial_id[:6]):
        spec, row = find_trial(store, given_id)
        assert spec == SPEC
        assert row["trial_id"] == SPEC.trial_id


def test_the_starter_set_of_a_cluster_that_has_ended_is_that_of_this_installation(store: ResultStore) -> None:
    gone = Path("/tmp/ray/session_gone/runtime_resources/trials/starter")
    there = {name: (str(gone / "treebanks" / "UD_Naija-NSC-sample" / f"{name}.conllu"),) for name in ("train", "dev")}
    spec = make_spec(seed=7)
    spec = spec.model_copy(
        update={
            "data": spec.data.model_copy(update=there),
            "model": spec.model.model_copy(update={"path": str(gone / "model")}),
        }
    )
    store.append("trials", [trial(spec.trial_id, spec=spec.model_dump_json())])
    found, _ = find_trial(store, spec.trial_id)
    assert found.model.path == str(model_path())
    assert found.data.dev == (str(treebank_path("UD_Naija-NSC-sample") / "dev.conllu"),)
    assert found.data.test == spec.data.test  # nothing of ours
    assert found.trial_id == spec.trial_id


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
        find_trial(store, given_id)


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
    rerun(SPEC, {"attempt": 1, "device": recorded}, lambda record: None)
    assert taken == [device]


# --- Differences


@given(st.sampled_from(sorted(METRICS)), st.floats(0, 1), st.floats(0, 1))
def test_a_metric_differs_where_any_of_its_bits_does(metric: str, stored: float, found: float) -> None:
    (one,), (other,) = rows(10), rows(10)
    differing = differences([one | {metric: stored}], [other | {metric: found}])
    assert differing == ([] if stored == found else [Difference(10, metric, stored, found)])


@each(
    "stored, found, expected",
    [
        (rows(10), rows(10, train_s=9.0, peak_memory_bytes=1, time=1.0), []),
        (rows(10, 20), rows(10), [(20, "step", 20, None)]),
        (rows(10), rows(10, 20), [(20, "step", None, 20)]),
        (rows(10, step_losses=(1.0, 2.0)), rows(10, step_losses=(1.0, 2.5)), [(10, "step_losses", (1, 2), (1, 2.5))]),
        (rows(10, step_losses=(1.0,)), rows(10, step_losses=()), [(10, "step_losses", (1.0,), ())]),
        (rows(10, metrics={"accuracy": 0.5}), rows(10, metrics={}), [(10, "accuracy", 0.5, None)]),
    ],
)
def test_what_was_computed_is_compared_number_by_number(
    stored: list[Row], found: list[Row], expected: list[tuple[Any, ...]]
) -> None:
    assert differences(stored, found) == [Difference(*one) for one in expected]
