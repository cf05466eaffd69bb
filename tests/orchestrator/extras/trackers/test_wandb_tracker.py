"""Offline runs of Weights & Biases, read back from their files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.orchestrator.extras.trackers.offline_run import OfflineRun, read_offline_run
from tests.orchestrator.extras.trackers.tracked_sweep import (
    BROKEN,
    COMPLETE,
    DIVERGED,
    RETRIED,
    SPECS,
    STOPPED,
    driven,
    exported,
)

pytestmark = pytest.mark.slow  # its service takes seconds; the other trackers are told the same


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a sweep that was followed while it ran, in `live`, and exported twice to `exported`."""
    wandb = pytest.importorskip("wandb")
    folder = tmp_path_factory.mktemp("wandb")
    with pytest.MonkeyPatch.context() as patch, driven(folder):
        patch.setenv("WANDB_MODE", "offline")
        for name, *options in (("live", "--follow"), ("exported",), ("exported",)):
            (folder / name).mkdir(exist_ok=True)
            patch.setenv("WANDB_DIR", str(folder / name))
            done = exported(folder, "--to", "wandb", "--into", "freezing", *options)
            assert (done.exit_code, done.stdout) == (0, "wrote 5 trials of tiny to wandb\n")
        wandb.teardown()  # as at the end of a process: its service writes the files out after a run has finished
    return folder


def runs(folder: Path) -> dict[str, OfflineRun]:
    found = [read_offline_run(path) for path in folder.glob("wandb/offline-run-*/run-*.wandb")]
    assert len({run.about["id"] for run in found}) == len(found)
    return {run.about["id"]: run for run in sorted(found, key=lambda run: run.about["id"])}


def test_a_trial_is_a_run_in_the_group_of_its_sweep_with_the_history_of_its_newest_attempt(folder: Path) -> None:
    found = runs(folder / "live")
    assert found.keys() == {spec.trial_id for spec in SPECS}
    assert {run.about["group"] for run in found.values()} == {"tiny"}
    assert (found[RETRIED.trial_id].config["freeze.depth"], found[RETRIED.trial_id].config["seed"]) == (2, 0)
    assert [(row["_step"], row["score"]) for row in found[RETRIED.trial_id].history] == [(13, 0.625), (26, 0.75)]
    assert [row["_timestamp"] for row in found[COMPLETE.trial_id].history] == [1_750_000_060.0, 1_750_000_120.0]
    assert math.isnan(found[DIVERGED.trial_id].history[-1]["dev_loss"])
    assert found[BROKEN.trial_id].history == []


def test_its_summary_says_how_it_ended(folder: Path) -> None:
    found = runs(folder / "live")
    states = {"completed": (COMPLETE, RETRIED), "diverged": (DIVERGED,), "failed": (BROKEN,)}
    for state, specs in states.items():
        ended = {(found[spec.trial_id].summary["permafrost.state"], found[spec.trial_id].exit_code) for spec in specs}
        assert ended == {(state, int(state != "completed"))}
    assert "permafrost.state" not in found[STOPPED.trial_id].summary
    assert found[COMPLETE.trial_id].summary["trial/best_score"] == 0.875
    assert found[BROKEN.trial_id].summary["permafrost.error"] == "FileNotFoundError: //***@host"


def test_exports_are_the_runs_that_were_followed_none_twice_and_nothing_of_the_machine_is_in_one(
    folder: Path,
) -> None:
    assert repr(runs(folder / "live")) == repr(runs(folder / "exported"))
    written = b"".join(path.read_bytes() for path in folder.glob("live/wandb/offline-run-*/run-*.wandb"))
    assert b"freezing" in written
    assert str(folder).encode() not in written
    assert not list(folder.glob("live/wandb/offline-run-*/files/wandb-metadata.json"))


@pytest.mark.slow
def test_online_without_a_key_asks_nobody(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    done = exported(folder, "--to", "wandb")
    assert done.exit_code == 2
    assert "no API key. Set WANDB_API_KEY" in done.stderr
