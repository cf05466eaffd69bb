"""A worker, without Ray around it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
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
from trials.cache.set_up_work import note
from trials.errors import NoDeviceError
from trials.hardware.machine import VISIBLE
from trials.record import EpochRecord


def worker(course: Callable[[], Iterator[EpochRecord]], gpus: float, monkeypatch: pytest.MonkeyPatch) -> TrialTrainable:
    """One whose trial does that."""

    class Settings(WorkerSettings):
        def records_here(self, *args: Any) -> Any:
            yield from course()

    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    attempt = {"spec": make_spec().model_dump_json(), "label": "one", "attempt": 1, "accumulation": 1}
    made = TrialTrainable.__new__(TrialTrainable)
    made.setup(attempt | {"worker_slots": 1, "share": Share(1, gpus), "settings": Settings("none", "results", None)})
    return made


@pytest.mark.parametrize(("gpus", "visible"), [(0.0, ""), (0.5, "0,1")])
def test_a_worker_without_a_gpu_hides_those_that_its_ray_lets_it_see(
    gpus: float, visible: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE, "0,1")
    worker(lambda: iter(()), gpus, monkeypatch)
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
    def course() -> Iterator[EpochRecord]:
        raise error
        yield

    def settle(memory: object) -> bool:
        assert not ends, "asked of a device that answers no longer"
        return True

    monkeypatch.setattr("trials.hardware.device.MemoryLevel.settle", settle)
    failing = worker(course, 1.0, monkeypatch)
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
    def course() -> Iterator[EpochRecord]:
        yield make_record(last=False, peak_memory_bytes=1 << 30)

    monkeypatch.setenv(VISIBLE, "0")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 3 << 30)
    step: Step = worker(course, gpus, monkeypatch).step()[STEP]
    assert step.record is not None
    assert (step.held_bytes, step.record.peak_memory_bytes) == (held, 1 << 30)


def test_a_step_tells_how_far_a_set_up_is_and_the_next_one_goes_on_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def course() -> Iterator[EpochRecord]:
        note("a broken file was thrown away")
        assert not told.wait(0)
        note("it was made anew")
        assert told.wait(60)
        yield make_record(last=False)

    told = threading.Event()
    working = worker(course, 0.0, monkeypatch)
    steps: list[Step] = [working.step()[STEP] for _ in range(2)]
    told.set()
    assert [str(step.work) for step in steps] == ["a broken file was thrown away", "it was made anew"]
    assert working.step()[STEP].record is not None
