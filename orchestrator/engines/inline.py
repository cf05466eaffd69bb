"""Run the trials of a launch in this process, one after the other: the reference for Ray, and for breakpoints."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.execution.engine import ENGINES, Engine, Evaluated, Event, Failed, Free, Idle, Job, Preparing, Started
from orchestrator.execution.failures import failure
from orchestrator.execution.trial_queue import Attempt
from orchestrator.execution.trial_settings import TrialSettings
from orchestrator.sweeps.cluster_spec import visible_gpus
from trials.cache.set_up_work import report_to
from trials.errors import is_device_broken, reason
from trials.hardware.machine import TORCH_LOCK, show_gpus
from trials.record import State

if TYPE_CHECKING:
    import torch

WAIT_S = 0.1


class InlineEngine(Engine):
    """One attempt at a time, in this thread: between two events it trains up to the next evaluation.

    Launches in other threads of the process alternate with it, an evaluation each.
    """

    def __init__(self, settings: TrialSettings, device: torch.device, threads: int) -> None:
        self._settings, self._device, self._threads = settings, device, threads
        self._attempt: Attempt | None = None

    def start(self, attempt: Attempt, slot: str) -> None:
        """Run it from the next event on."""
        self._attempt = attempt

    def reply(self, attempt: Attempt, *, goes_on: bool) -> None:
        """Train up to the next evaluation, or end it."""
        self._attempt = attempt if goes_on else None

    def events(self, preparing: Preparing) -> Generator[Event, None, None]:
        """The events of one attempt after the other."""
        while True:
            yield Free("")
            if self._attempt is None:  # a trial waits for its next attempt, or for another driver
                time.sleep(WAIT_S)
            else:
                yield from self._run(self._attempt, preparing)
            yield Idle()

    def _run(self, attempt: Attempt, preparing: Preparing) -> Iterator[Event]:
        import torch

        yield Started(attempt)
        try:
            records = self._settings.records(attempt.spec, attempt.number, attempt.accumulation, device=self._device)
            try:
                while self._attempt is not None:
                    with TORCH_LOCK, report_to(partial(preparing, attempt.spec)):
                        torch.set_num_threads(self._threads)
                        record = next(records)
                    yield Evaluated(attempt, record.with_placement(gpus=record.gpus, worker_slots=1))
            finally:
                with TORCH_LOCK:
                    records.close()  # one that has not ended saves a checkpoint, if the sweep has any
        except Exception as error:
            self._attempt = None
            state, text = failure(error)
            broken = None
            if is_device_broken(error) and state is not State.OUT_OF_MEMORY:
                rest = "Run the same command to go on in a new one"
                broken = f"CUDA works no longer in this process ({reason(error)}). {rest}"
            yield Failed(attempt, state, text, broken=broken)


@ENGINES.register("inline")
@contextmanager
def inline(job: Job) -> Iterator[Engine]:
    """Run them here; the same rows as on Ray except for times."""
    sweep, resources = job.plan.sweep, job.plan.sweep.resources
    with visible_gpus(job.cluster) if resources.gpus else show_gpus(()):
        from trials.hardware.device import device_for

        device = device_for(1.0 if resources.gpus == "packed" else float(resources.gpus))
        yield InlineEngine(TrialSettings.of(sweep, job.store), device, resources.cpus)
