"""The engine on Tune, without Ray: its folder, what slots learn of workers, and a GPU that vanishes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator.execution.recorder import Recorder
from orchestrator.ray_engine import tune_engine as module
from orchestrator.ray_engine.slots import ANY, Node, Share, Slots
from orchestrator.ray_engine.trainable import STEP, Failure, Step, WorkerSettings
from orchestrator.ray_engine.tune_engine import TuneEngine, tune_folder
from orchestrator.store import ResultStore
from tests.builders import make_record, make_spec
from tests.examples import each
from tests.loops import loop_of
from trials.record import State

UNSEEN = Step(failure=Failure(State.FAILED, "torch sees none", is_unseen=True))


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


class PlayedTrial:
    """Stands in for Tune's."""

    def __init__(self, kind: str, **options: Any) -> None:
        self.last_result: dict[str, Step] = {}


class PlayedController:
    """Stands in for Tune's: each trial starts and makes the next of some steps; decisions are kept."""

    steps: list[Step] = []

    def __init__(self, *, callbacks: list[Any], **options: Any) -> None:
        (self._heard,) = callbacks
        self.added, self.told = list[PlayedTrial](), list[str]()

    def add_trial(self, trial: PlayedTrial) -> None:
        self.added.append(trial)

    def step(self) -> None:
        for trial in self.added:
            self._heard.on_trial_start(0, [], trial)
            trial.last_result = {STEP: self.steps.pop(0)}
            self._heard.on_trial_result(0, [], trial, trial.last_result)
        self.added = []


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[PlayedController]:
    class Experiment:
        run_identifier, storage = "trial", None

        def __init__(self, *args: Any, **options: Any) -> None:
            pass

    for name, played in (("TuneController", PlayedController), ("Trial", PlayedTrial), ("Experiment", Experiment)):
        monkeypatch.setattr(module, name, played)
    monkeypatch.setattr(module, "act", lambda controller, trial, decision: controller.told.append(decision))
    return PlayedController


def engine_with(slots: type[Slots], folder: Path) -> TuneEngine:
    """One that has room for one trial."""
    return TuneEngine(folder, slots({ANY: Share()}, lambda: [Node("cpu", 1, 0)]), WorkerSettings("none", "", None))


def test_slots_learn_what_the_process_of_a_trial_held_of_its_gpu(
    controller: type[PlayedController], tmp_path: Path
) -> None:
    learned = list[int]()

    class Learning(Slots):
        def measured(self, held_bytes: int) -> None:
            learned.append(held_bytes)

    controller.steps = [Step(make_record(last=True), held_bytes=3 << 30, is_worn=True)]
    engine = engine_with(Learning, tmp_path)
    loop, heard = loop_of(engine, [make_spec()], Recorder(ResultStore(tmp_path / "store")))
    loop.run()
    assert (learned, heard.lines[-1]) == ([3 << 30], "0 completed")
    assert engine._controller.told == ["CONTINUE"]  # so that the worn worker raises, and is replaced


@each("ran_before, last, reason", [(True, "again lost", "a GPU is gone: torch sees none"), (False, "failed", None)])
def test_a_gpu_that_vanishes_in_the_middle_stops_the_launch_and_its_trial_is_left_for_the_next(
    ran_before: bool, last: str, reason: str | None, controller: type[PlayedController], tmp_path: Path
) -> None:
    ran = [Step(make_record(last=True, gpus=0.5))] if ran_before else []
    controller.steps = [*ran, UNSEEN]
    specs = [make_spec(seed=n) for n in range(len(controller.steps))]
    loop, heard = loop_of(engine_with(Slots, tmp_path), specs, Recorder(ResultStore(tmp_path / "store")))
    loop.run()
    assert (heard.lines[-1].partition(" ")[2], loop.stop.reason) == (last, reason)
