"""The one writer: reports become rows, and what a trial left is committed even after an error."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import ValidationError

from orchestrator.commands.launch_command import launch
from orchestrator.commands.status_command import status
from orchestrator.execution.failures import failure, last_line
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import End
from orchestrator.execution.trial_rows import epoch_row, trial_row
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import ResultStore, open_store
from orchestrator.store.schema import EPOCHS, METRICS, TRIALS
from tests.builders import make_record, make_spec, write_sweep
from tests.examples import each
from tests.lab.chaos.cluster import small_disk
from tests.small_sweeps import POS, write_bank
from trials.draft import FreezeDraft
from trials.errors import StoreError
from trials.record import EpochRecord, State
from trials.spec import TrialSpec
from trials.tasks import TASKS

SPEC = make_spec()
EARLY = make_record(step=1, epoch=0.5, score=0.25, test_score=None, last=False, setup_s=1.0, train_s=2.0, eval_s=4.0)
BEST = make_record(step=2, epoch=1.0, score=0.75, test_score=None, last=False, setup_s=0.0, peak_memory_bytes=1 << 40)
LAST = make_record(step=3, epoch=1.5, score=0.5, test_score=0.625, setup_s=0.0, train_s=8.0, eval_s=0.5)


def record(store: ResultStore, *records: EpochRecord, state: State = State.COMPLETED, error: str | None = None) -> None:
    recorder = Recorder(store)
    recorder.started(SPEC, 1)
    for one in records:
        recorder.evaluated(SPEC, one)
    recorder.ended(End(SPEC, state, error))
    recorder.close()


def row(*records: EpochRecord, state: State = State.COMPLETED, error: str | None = None) -> dict[str, Any]:
    return trial_row(SPEC, 3, list(records), state, error)


def test_a_recorded_epoch_reads_back_as_it_was_reported_and_metrics_of_other_tasks_are_null(store: ResultStore) -> None:
    record(store, EARLY)
    (found,) = store.epochs().to_pylist()
    for name in ("step", "epoch", "train_loss", "dev_loss", "score", "examples_seen", "lr", "setup_s", "train_s"):
        assert found[name] == getattr(EARLY, name), name
    assert found["step_losses"] == [2.0, 1.0]
    assert found["time"] == datetime.fromtimestamp(EARLY.time, UTC)
    assert {name: found[name] for name in METRICS if found[name] is not None} == EARLY.metrics


def test_every_column_of_an_epoch_and_of_a_trial_is_filled_and_every_metric_of_a_task_has_one() -> None:
    everything = replace(LAST, metrics=dict.fromkeys(METRICS, 0.5))
    assert set(epoch_row(SPEC, 1, everything)) == set(EPOCHS.names)
    assert set(row(LAST)) == set(TRIALS.names) - {"row_counts"}
    assert {metric for task in TASKS.values() for metric in task.metrics} <= set(METRICS)


def test_the_best_score_is_devs_test_is_taken_from_the_last_record_and_times_are_sums() -> None:
    found = row(EARLY, BEST, LAST)
    assert (found["best_score"], found["best_epoch"]) == (0.75, 1.0)
    assert (found["test_score"], found["last_epoch"]) == (0.625, 1.5)
    assert (found["setup_s"], found["train_s"], found["eval_s"]) == (1.0, 12.0, 4.75)
    assert found["peak_memory_bytes"] == 1 << 40
    assert row(BEST, make_record(epoch=9.0, score=BEST.score))["best_epoch"] == BEST.epoch  # of equals the earliest


def test_energy_is_a_sum_and_null_where_a_part_of_it_is_not_known(store: ResultStore) -> None:
    known = [replace(one, energy_j=joules) for one, joules in ((EARLY, 100.5), (BEST, 20.0), (LAST, 3.0))]
    record(store, *known)
    assert store.epochs()["energy_j"].to_pylist() == [100.5, 20.0, 3.0]
    assert store.trials()["energy_j"].to_pylist() == [123.5]
    assert row(known[0], BEST, known[2])["energy_j"] is None


@each("gpus, expected", [(0.0, 8.0), (0.5, None), (1.0, 8.0), (2.0, 8.0)])
def test_the_energy_of_a_gpu_that_was_shared_is_nobodys(gpus: float, expected: float | None) -> None:
    shared = replace(LAST, energy_j=8.0).with_placement(gpus=gpus, worker_slots=1)
    assert epoch_row(SPEC, 1, shared)["energy_j"] == row(shared)["energy_j"] == expected


def test_a_trial_that_failed_before_its_first_record_has_null_results_and_one_that_diverged_what_it_had_learnt(
    store: ResultStore,
) -> None:
    record(store, state=State.FAILED, error="no memory")
    (found,) = store.trials().to_pylist()
    assert (found["state"], found["error"], found["attempt"]) == ("failed", "no memory", 1)
    assert (found["best_score"], found["total_params"]) == (None, None)
    found = row(EARLY, BEST, state=State.DIVERGED, error="the loss is nan")
    assert (found["state"], found["best_score"], found["test_score"]) == ("diverged", 0.75, None)


def test_the_spec_of_a_row_is_the_trial_and_it_says_which_code_and_versions_made_it(store: ResultStore) -> None:
    record(store, LAST)
    (found,) = store.trials().to_pylist()
    assert TrialSpec.model_validate_json(found["spec"]) == SPEC
    assert found["trial_id"] == SPEC.trial_id
    assert {"python", "torch", "transformers", "permafrost-sweeps"} <= set(dict(found["versions"]))


def test_a_trial_that_is_cut_off_leaves_its_epochs_once_and_no_trial_although_they_could_not_be_written_at_first(
    store: ResultStore,
) -> None:
    Recorder(store).close()
    assert list(store.root.glob("*/*")) == []
    store.root.mkdir(exist_ok=True)
    (store.root / "epochs").write_text("in the way")
    recorder = Recorder(store)
    recorder.started(SPEC, 1)
    recorder.evaluated(SPEC, EARLY)
    with pytest.raises(StoreError, match="cannot be written"):
        recorder.flush()
    (store.root / "epochs").unlink()
    for _ in range(2):
        recorder.close()
        assert (len(store.epochs()), len(store.trials()), len(list((store.root / "epochs").iterdir()))) == (1, 0, 1)


def test_a_long_sweep_leaves_few_parts_on_the_way(store: ResultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.execution.recorder.COMPACT_EVERY", 5)
    recorder = Recorder(store)
    for seed in range(11):
        spec = make_spec(seed=seed)
        recorder.started(spec, 1)
        recorder.evaluated(spec, make_record())
        recorder.ended(End(spec, State.COMPLETED))
        recorder.flush()
        assert len(list((store.root / "trials").iterdir())) <= 5
    assert len(store.trials()) == 11


# --- The one line of an error that tables and logs show says what happened.


def test_a_validation_error_ends_with_its_rule_not_with_an_address() -> None:
    with pytest.raises(ValidationError) as error:
        FreezeDraft(strategy="frist_k")
    text = failure(error.value)[1]
    assert text.splitlines()[-1].strip().startswith("For further information")
    assert last_line(text).startswith("Value error, unknown 'frist_k', did you mean 'first_k'?")
    assert last_line("one\ntwo") == "two"
    assert last_line(None) == "no reason given"


# --- Where checkpoints cannot be written, trials go on: one note, and `status` shows it.


def test_a_disk_too_small_for_checkpoints_costs_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_bank(tmp_path / "bank", train=8, dev=4, test=2)
    text = POS.replace("folder: ", f"folder: {tmp_path}/") + "checkpoint: {epochs: 1}\nname: small\n"
    sweep = write_sweep(tmp_path / "small.yaml", text)
    with small_disk(tmp_path / "disk", megabytes=2) as mounted:
        if not mounted:
            monkeypatch.setattr(FolderStorage, "free_bytes", lambda self: 0)
        store = tmp_path / "disk" / "store"
        with pytest.raises(typer.Exit) as ended:
            launch(sweep, "inline", str(store))
        assert ended.value.exit_code == 0
        assert capfd.readouterr().err.count("note    checkpoints cannot be written; trials go on") == 1
        rows = open_store(store).trials().to_pylist()
        assert [row["state"] for row in rows] == ["completed"] * 2
        assert all("no room for a checkpoint of" in row["checkpoint_error"] for row in rows)
        status(str(store))
        assert "note: in 2 of 2 trials checkpoints could not be written" in capfd.readouterr().out
