"""A worker, without Ray around it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.execution.slots import Share
from orchestrator.ray_backend.trainable import TrialTrainable, WorkerSettings
from tests.builders import make_spec
from trials.hardware.machine import VISIBLE
from trials.record import EpochRecord
from trials.spec import TrialSpec


class IdleTrainable(TrialTrainable):
    """Runs nothing."""

    def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
        return iter(())


@pytest.mark.parametrize(("gpus", "visible"), [(0.0, ""), (0.5, "0,1")])
def test_a_worker_without_a_gpu_hides_those_that_its_ray_lets_it_see(
    gpus: float, visible: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE, "0,1")
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    trial = {"spec": make_spec().model_dump_json(), "attempt": 1, "until": None, "worker_slots": 1}
    settings = WorkerSettings("none", "results", None)
    IdleTrainable.__new__(IdleTrainable).setup(trial | {"share": Share(1, gpus), "settings": settings})
    assert os.environ[VISIBLE] == visible
