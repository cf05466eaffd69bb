"""What a launch does when trials fail, and what it says at its end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from orchestrator.commands.launch_command import launch
from orchestrator.store import ResultStore, open_store
from tests.builders import make_record, write_sweep, write_treebank
from trials.errors import DivergedError
from trials.record import EpochRecord
from trials.spec import TrialSpec

SWEEP = """
trial: {data: {folder: bank}, optim: {batch_size: 4, epochs: 1}}
space: {freeze: [none, {strategy: first_k, depth: 2}]}
seeds: [0, 1, 2]
checkpoint: off
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_treebank(tmp_path / "bank")
    write_sweep(tmp_path / "s.yaml", SWEEP.replace("folder: bank", f"folder: {tmp_path}/bank"))
    return tmp_path


def launched(folder: Path, monkeypatch: pytest.MonkeyPatch, trial: Any, *settings: str) -> tuple[int, ResultStore]:
    """Run the sweep with another trial in place of the real one."""
    monkeypatch.setattr("trials.run.run_trial", trial)
    with pytest.raises(typer.Exit) as ended:
        launch(folder / "s.yaml", "inline", str(folder / "store"), settings=list(settings))
    return ended.value.exit_code, open_store(folder / "store")


def done(spec: TrialSpec, accumulation: int, **unused: Any) -> Iterator[EpochRecord]:
    yield make_record(last=True, accumulation=accumulation)


def test_a_trial_without_memory_ends_with_its_batches_in_parts_which_its_row_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hungry(spec: TrialSpec, accumulation: int, **unused: Any) -> Iterator[EpochRecord]:
        if spec.freeze.is_baseline and accumulation < 4:
            raise MemoryError
        yield from done(spec, accumulation)

    code, store = launched(folder, monkeypatch, hungry)
    rows = store.trials().to_pylist()
    assert code == 0
    assert {(row["freeze_depth"], row["accumulation"], row["attempt"]) for row in rows} == {(0, 4, 3), (2, 1, 1)}


def test_a_diverged_trial_keeps_its_rows_and_the_others_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def diverging(spec: TrialSpec, **settings: Any) -> Iterator[EpochRecord]:
        if spec.seed == 1:
            yield make_record(last=False, test_score=None, test_metrics=None)
            raise DivergedError("the training loss is nan at step 14; lower optim.lr.")
        yield from done(spec, **settings)

    code, store = launched(folder, monkeypatch, diverging)
    states = [row["state"] for row in store.trials().to_pylist()]
    assert (code, states.count("completed"), states.count("diverged")) == (1, 4, 2)
    assert len(store.epochs()) == 6
    assert re.search(r"\n +2 +diverged +the training loss is", capsys.readouterr().err)


def test_a_sweep_whose_first_trials_fail_alike_is_given_up_with_one_report(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(spec: TrialSpec, **settings: Any) -> Iterator[EpochRecord]:
        raise KeyError("no such thing")
        yield

    code, store = launched(folder, monkeypatch, broken, "limits.alike=3")
    rows, said = store.trials().to_pylist(), capsys.readouterr().err
    assert code == 1
    assert len(rows) == 3
    assert all("Traceback" in row["error"] for row in rows)
    assert "stopped with 3 trials left: the first 3 trials all failed alike: KeyError: 'no such thing'" in said
    assert re.search(r"\n +3 +failed +KeyError", said)


def test_after_an_error_of_cuda_nothing_more_runs_in_this_process_and_the_next_launch_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaking(spec: TrialSpec, **settings: Any) -> Iterator[EpochRecord]:
        if spec.seed == 1:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be ...")
        yield from done(spec, **settings)

    code, store = launched(folder, monkeypatch, breaking)
    states = [row["state"] for row in store.trials().to_pylist()]
    assert (code, states.count("failed")) == (1, 1)
    assert len(states) < 6
    assert (
        "CUDA works no longer in this process (CUDA error: an illegal memory access was enc" in capsys.readouterr().err
    )
    code, store = launched(folder, monkeypatch, done)
    assert (code, {row["state"] for row in store.trials().to_pylist()}) == (0, {"completed"})
