"""Waiting for a trial stops nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ray.tune.execution.tune_controller import TuneController

from orchestrator.execution.events import StopRequest
from orchestrator.execution.slots import ANY, Node, Share, Slots
from orchestrator.ray_backend.driver import PlannedTrials


def test_what_finished_is_committed_while_tune_waits_for_a_trial_and_does_nothing_else() -> None:
    committed: list[bool] = []
    elsewhere: Any = SimpleNamespace(is_over=False, take=lambda: None)  # another driver has the trials that are left
    slots = Slots({ANY: Share()}, lambda: [Node("cpu", 2, 0)])
    search = PlannedTrials(elsewhere, slots, lambda share: {}, StopRequest(), lambda: committed.append(True))
    waits = SimpleNamespace(next_trial=lambda: search.suggest("any"))
    tune = SimpleNamespace(_search_alg=waits, is_finished=lambda: len(committed) > 1)
    TuneController._update_trial_queue(tune, blocking=True, timeout=3)
    assert tune.is_finished()
