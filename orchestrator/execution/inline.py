"""Run planned trials in this process, one after the other: the reference for Ray, and the way to set breakpoints.

What trains is imported where it is called: a driver of Ray takes the settings from here, and never loads torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from orchestrator.execution.events import Listener, failure
from orchestrator.execution.recorder import StoredCheckpoints
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import Attempt, TrialQueue
from orchestrator.execution.trial_source import Verdict, prune_reason
from orchestrator.storage.open_storage import open_storage
from orchestrator.store.stored_weights import save_weights
from orchestrator.sweeps.sweep import Resources, SweepSpec
from trials.cache.set_up_work import reported_to
from trials.errors import is_device_broken, reason
from trials.record import EpochRecord
from trials.settings import Predictions
from trials.spec import TrialSpec
from trials.state import State
from trials.training.checkpoint_times import CheckpointTimes

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TrialSettings:
    """What all trials of a launch share, wherever they run.

    Attributes:
        predictions: Which are stored.
        store: Address of the store, where checkpoints and weights are saved.
        checkpoint: When trials save checkpoints; None for never.
        keep_weights: Whether completed trials store their trained tensors.
    """

    predictions: Predictions
    store: str
    checkpoint: CheckpointTimes | None
    keep_weights: bool = False

    @classmethod
    def of(cls, sweep: SweepSpec, store: str, **more: Any) -> Self:
        """Those of a sweep."""
        return cls(sweep.predictions, store, sweep.checkpoint.times, sweep.keep == "weights", **more)

    def records(
        self,
        spec: TrialSpec,
        number: int,
        accumulation: int,
        *,
        device: torch.device,
        leaving: Callable[[], bool] = lambda: False,
    ) -> Generator[EpochRecord, None, object]:
        """An attempt at a trial; `leaving` says that its process has to end."""
        from trials.run import run_trial
        from trials.training.checkpoint import Checkpoints

        storage = StoredCheckpoints(self.store, spec.trial_id, number)
        return run_trial(
            spec,
            device=device,
            predictions=self.predictions,
            checkpoints=Checkpoints(storage, self.checkpoint, leaving=leaving) if self.checkpoint else None,
            accumulation=accumulation,
            keep_weights=partial(save_weights, open_storage(self.store), spec.trial_id) if self.keep_weights else None,
        )


def run_inline(
    queue: TrialQueue, listener: Listener, *, resources: Resources, settings: TrialSettings, stop: StopRequest
) -> None:
    """Run the trials of a queue in order and report to the listener; the same rows as `run_sweep` except for times."""
    import torch

    from trials.hardware.device import device_for

    torch.set_num_threads(resources.cpus)
    device = device_for(1.0 if resources.gpus == "packed" else float(resources.gpus))
    while not (stop.asked or queue.is_over):
        attempt = queue.take()
        for settled in queue.settled_elsewhere():
            listener.settled(*settled)
        if attempt is None:
            listener.tick()  # others may wait for rows that are not committed yet
            time.sleep(0.1)  # a trial waits for its next attempt, or for another driver
            continue
        listener.started(attempt.spec, attempt.number)
        error: str | None = None
        try:
            records = settings.records(attempt.spec, attempt.number, attempt.accumulation, device=device)
            with reported_to(partial(listener.preparing, attempt.spec)):
                state, error = _run(attempt, records, queue, listener, stop)
            if state is None:
                return
        except Exception as raised:
            state, error = failure(raised)
            if is_device_broken(raised) and state is not State.OUT_OF_MEMORY:
                rest = "Run the same command to go on in a new one"
                stop.reason = f"CUDA works no longer in this process ({reason(raised)}). {rest}"
        report = listener.ended if queue.ended(attempt.spec, state, error) is None else listener.retried
        report(attempt.spec, state, error)
        stop.reason = stop.reason or queue.broken


def _run(
    attempt: Attempt,
    records: Generator[EpochRecord, None, object],
    queue: TrialQueue,
    listener: Listener,
    stop: StopRequest,
) -> tuple[State | None, str | None]:
    """Run an attempt; its state and the reason if it is not completed. The state is None if the sweep was stopped."""
    for record in (unplaced.placed(gpus=unplaced.gpus, worker_slots=1) for unplaced in records):
        verdict = queue.evaluated(attempt.spec, record)
        listener.evaluated(attempt.spec, record)
        if record.last:
            return State.COMPLETED, None
        if stop.asked or verdict is not Verdict.CONTINUE:
            records.close()
            return (None, None) if verdict is Verdict.CONTINUE else (State.PRUNED, prune_reason(verdict, record))
    raise AssertionError("a trial ends with its last record")
