"""The main job without Ray: plan, run, store, table, second launch, more seeds, status."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from orchestrator.store import open_store
from tests.end_to_end.conftest import environment, run_here, write_small_sweep

Done = tuple[Path, Result]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A folder with `small.yaml` and its finished `store`, and what the launch said; tests only add to the store."""
    folder = tmp_path_factory.mktemp("done")
    sweep = write_small_sweep(folder)
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", environment()["COLUMNS"])
        return folder, run_here("launch", "--sweep", sweep, "--store", folder / "store", "--cluster", "inline")


def test_a_sweep_runs_its_table_is_printed_and_a_second_launch_has_nothing_to_do(
    done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, first = done
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", environment()["COLUMNS"])
    arguments = ("--sweep", folder / "small.yaml", "--store", folder / "store", "--cluster", "inline")
    second = run_here("launch", *arguments)
    assert (first.exit_code, second.exit_code) == (0, 0), first.stderr  # a warning would be an error
    assert "8 = 4 settings x 2 seeds; 0 complete in the store, 8 to run" in first.stderr
    assert "two, 24 train sentences" in first.stdout
    assert "■ ■■■■□□ first 4" in first.stdout
    assert "±" in first.stdout
    assert "complete in the store; none runs" in second.stderr
    assert first.stdout == second.stdout
    tables, _, _ = first.stdout.partition("one (pos), ")
    assert tables.strip() in run_here("status", "--store", folder / "store").stdout


def test_the_store_holds_every_epoch_of_every_trial(done: Done) -> None:
    store = open_store(done[0] / "store")
    trials, epochs = store.trials().to_pylist(), store.epochs().to_pylist()
    assert len(trials) == 8
    assert {row["state"] for row in trials} == {"completed"}
    assert sorted((r["trial_id"], r["epoch"]) for r in epochs) == sorted(
        (t["trial_id"], e) for t in trials for e in (1.0, 2.0)
    )
    for trial in trials:
        rows = [row for row in epochs if row["trial_id"] == trial["trial_id"]]
        assert trial["best_score"] == max(row["score"] for row in rows)
        assert sum(len(row["step_losses"]) for row in rows) == rows[-1]["step"] == 6
        assert 0 < trial["test_score"] <= 1


def test_adding_a_seed_runs_only_that_one_in_this_or_another_sweep(
    done: Done, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(done[0], folder)
    monkeypatch.chdir(folder)
    arguments = ("--sweep", folder / "small.yaml", "--store", folder / "store", "--cluster", "inline", "--json")
    added = run_here("launch", *arguments, "--set", "seeds=[1,2]", "--set", "name=other")
    outcome = json.loads(added.stdout)
    assert outcome.pop("wall_s") > 0
    assert outcome == {
        "sweep": "other", "store": str(folder / "store"),
        "planned": 8, "skipped": 4, "completed": 4, "pruned": 0, "failed": 0, "ran": 4,
    }  # fmt: skip
    assert len(open_store(folder / "store").trials()) == 12


@pytest.mark.slow
def test_a_signal_after_the_last_trial_leaves_the_table_the_answer_and_exit_code_0(sweep: Path, tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("permafrost")
    words: list[str | Path] = [script, "launch", "--sweep", sweep, "--store", tmp_path / "store", "--cluster", "inline"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment()}
    with subprocess.Popen(words, cwd=tmp_path, **pipes) as launch:
        assert launch.stderr is not None
        assert any(line.startswith("8/8 completed") for line in launch.stderr)
        launch.send_signal(signal.SIGTERM)
        out, err = launch.communicate()
    assert launch.returncode == 0, err
    assert "two, 24 train sentences" in out
    assert "\n  Not learned" in out
    assert "The baseline has not learned the task" in " ".join(out.split())
    assert len(open_store(tmp_path / "store").completed_ids()) == 8
