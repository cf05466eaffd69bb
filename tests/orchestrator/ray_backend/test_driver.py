"""Tune's folder lasts as long as its driver; what killed ones left is removed by the next."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.execution.tune_controller import TuneController

from orchestrator.execution.events import StopRequest
from orchestrator.execution.slots import ANY, Node, Share, Slots
from orchestrator.ray_backend.driver import PlannedTrials, tune_folder
from orchestrator.ray_backend.trainable import WorkerSettings


def test_the_folder_of_a_killed_driver_is_removed_and_that_of_a_running_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, foreign = tmp_path / "permafrost-tune-killed", tmp_path / "permafrost-tune-foreign"
    for folder in (killed, foreign):
        folder.mkdir()
    (killed / "lock").touch()
    with tune_folder() as running:
        with tune_folder():
            assert running.exists()
        assert (killed.exists(), foreign.exists()) == (False, True)
    assert not running.exists()


# --- Waiting for a trial stops nothing else.


def test_what_finished_is_committed_while_tune_waits_for_a_trial_and_does_nothing_else() -> None:
    committed: list[bool] = []
    elsewhere: Any = SimpleNamespace(is_over=False, take=lambda: None)  # another driver has the trials that are left
    slots = Slots({ANY: Share()}, lambda: [Node("cpu", 2, 0)])
    settings = WorkerSettings("none", "results", None)
    search = PlannedTrials(elsewhere, slots, settings, StopRequest(), lambda: committed.append(True))
    waits = SimpleNamespace(next_trial=lambda: search.suggest("any"))
    tune = SimpleNamespace(_search_alg=waits, is_finished=lambda: len(committed) > 1)
    TuneController._update_trial_queue(tune, blocking=True, timeout=3)
    assert tune.is_finished()
