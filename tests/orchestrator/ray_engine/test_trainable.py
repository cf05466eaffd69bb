"""A worker, without Ray around it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from orchestrator.ray_engine.slots import Share
from orchestrator.ray_engine.trainable import (
    STEP,
    Step,
    TrialTrainable,
    WorkerSettings,
    WornWorkerError,
)
from tests.builders import make_record, make_spec
from tests.examples import each
from trials.errors import NoDeviceError
from trials.hardware.machine import VISIBLE
from trials.record import EpochRecord
from trials.spec import TrialSpec


class IdleTrainable(TrialTrainable):
    """Runs nothing."""

    def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
        return iter(())


def worker(kind: type[TrialTrainable], gpus: float, monkeypatch: pytest.MonkeyPatch) -> TrialTrainable:
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    trial = {"spec": make_spec().model_dump_json(), "label": "one", "attempt": 1, "until": None, "worker_slots": 1}
    made = kind.__new__(kind)
    made.setup(trial | {"share": Share(1, gpus), "settings": WorkerSettings("none", "results", None)})
    return made


@pytest.mark.parametrize(("gpus", "visible"), [(0.0, ""), (0.5, "0,1")])
def test_a_worker_without_a_gpu_hides_those_that_its_ray_lets_it_see(
    gpus: float, visible: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE, "0,1")
    worker(IdleTrainable, gpus, monkeypatch)
    assert os.environ[VISIBLE] == visible


@each(
    "error, state, ends",
    [
        (RuntimeError("CUDA error: device-side assert triggered"), "failed", True),
        (RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable"), "lost", True),
        (RuntimeError("CUDA error: no kernel image is available for execution on the device"), "lost", True),
        (RuntimeError("CUDA error: out of memory"), "out_of_memory", True),
        (torch.OutOfMemoryError("CUDA out of memory."), "out_of_memory", False),
        (NoDeviceError("this trial was given a GPU that is not seen"), "failed", False),
        (KeyError("a bug"), "failed", False),
    ],
)
def test_an_error_of_cuda_is_reported_before_its_process_ends(
    error: Exception, state: str, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(TrialTrainable):
        def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
            raise error
            yield

    def settle(memory: object) -> bool:
        assert not ends, "asked of a device that answers no longer"
        return True

    monkeypatch.setattr("trials.hardware.device.MemoryLevel.settle", settle)
    failing = worker(Failing, 1.0, monkeypatch)
    step: Step = failing.step()[STEP]
    assert step.failure is not None
    assert (step.failure.state, step.is_worn) == (state, ends)
    assert step.failure.is_unseen == isinstance(error, NoDeviceError)
    if ends:
        with pytest.raises(WornWorkerError):
            failing.step()


@each("gpus, held", [(0.5, 3 << 30), (0.0, None)])
def test_a_record_comes_with_what_torch_held_of_the_gpu_which_is_more_than_it_gave_out(
    gpus: float, held: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Trained(IdleTrainable):
        def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
            yield make_record(last=False, peak_memory_bytes=1 << 30)

    monkeypatch.setenv(VISIBLE, "0")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 3 << 30)
    step: Step = worker(Trained, gpus, monkeypatch).step()[STEP]
    assert step.record is not None
    assert (step.held_bytes, step.record.peak_memory_bytes) == (held, 1 << 30)
