"""Tune's folder lasts as long as its driver; what killed ones left is removed by the next."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.execution.tune_controller import TuneController

from orchestrator.config.limits import Limits
from orchestrator.execution.events import Listener
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import Listed, TrialQueue
from orchestrator.ray_backend.driver import PlannedTrials, _ListenerCallback, tune_folder
from orchestrator.ray_backend.slots import ANY, Node, Share, Slots
from orchestrator.ray_backend.trainable import FAILURE, HELD, RECORD, UNSEEN, WorkerSettings
from tests.builders import make_record, make_spec
from tests.examples import each
from trials.record import State
from trials.spec import TrialSpec


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
    # another driver has the trials that are left
    elsewhere: Any = SimpleNamespace(is_over=False, take=lambda: None, settled_elsewhere=list)
    listener: Any = SimpleNamespace(tick=lambda: committed.append(True))
    slots = Slots({ANY: Share()}, lambda: [Node("cpu", 2, 0)])
    settings = WorkerSettings("none", "results", None)
    search = PlannedTrials(elsewhere, slots, settings, StopRequest(), listener)
    waits = SimpleNamespace(next_trial=lambda: search.suggest("any"))
    tune = SimpleNamespace(_search_alg=waits, is_finished=lambda: len(committed) > 1)
    TuneController._update_trial_queue(tune, blocking=True, timeout=3)
    assert tune.is_finished()


# --- What slots learn of workers


class Quiet(Listener):
    """Hears and says nothing."""


def running_one(slots: Slots) -> tuple[_ListenerCallback, Any]:
    """A callback, and Tune's trial of the one attempt that runs."""
    queue = TrialQueue(Listed([make_spec()]), Limits())
    attempt = queue.take()
    assert attempt is not None
    config = {"trial_id": attempt.spec.trial_id, "attempt": attempt.number}
    return _ListenerCallback(queue, slots, Quiet(), StopRequest()), SimpleNamespace(config=config, error_file=None)


def test_slots_learn_what_the_process_of_a_trial_held_of_its_gpu() -> None:
    learned = list[int | None]()

    class Learning(Slots):
        def measured(self, held_bytes: int) -> None:
            learned.append(held_bytes)

    callback, trial = running_one(Learning({ANY: Share()}, list))
    callback.on_trial_result(0, [], trial, {RECORD: {"record": make_record(last=True), HELD: 3 << 30}})
    assert learned == [3 << 30]


# --- A GPU that vanishes ends the launch, not the trials that are left.


@each("ran_before, state, reason", [(True, State.LOST, "a GPU is gone: torch sees none"), (False, State.FAILED, None)])
def test_a_gpu_that_vanishes_in_the_middle_stops_the_launch_and_its_trial_is_left_for_the_next(
    ran_before: bool, state: State, reason: str | None
) -> None:
    queue, stop, told = TrialQueue(Listed([make_spec(seed=n) for n in range(3)]), Limits()), StopRequest(), list[Any]()

    class Told(Listener):
        def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
            told.append(state)

        def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
            told.append(state)

    callback = _ListenerCallback(queue, Slots({ANY: Share()}, list), Told(), stop)

    def ends(result: dict[str, Any]) -> None:
        attempt = queue.take()
        assert attempt is not None
        trial: Any = SimpleNamespace(config={"trial_id": attempt.spec.trial_id, "attempt": attempt.number})
        callback.on_trial_start(0, [], trial)
        callback.on_trial_result(0, [], trial, result)

    if ran_before:
        ends({RECORD: {"record": make_record(last=True, gpus=0.5)}})
    ends({FAILURE: {"state": "failed", "error": "torch sees none", UNSEEN: True}})
    assert (told[-1], stop.reason) == (state, reason)
