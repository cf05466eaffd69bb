"""Run planned trials in this process, one after the other: the reference for Ray, and the way to set breakpoints."""

from __future__ import annotations

import time
from collections.abc import Generator
from functools import partial

import torch

from orchestrator.execution.checkpoint_store import StoredCheckpoints
from orchestrator.execution.events import Listener, failure
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import Attempt, TrialQueue
from orchestrator.execution.trial_source import Verdict, prune_reason
from orchestrator.storage.open_storage import open_storage
from orchestrator.store.schema import State
from orchestrator.store.weights import save_weights
from orchestrator.sweeps.sweep import Resources
from trials.cache.set_up import reported_to
from trials.hardware.device import device_for
from trials.record import EpochRecord
from trials.run import run_trial
from trials.settings import CheckpointTimes, Predictions
from trials.training.checkpoint import Checkpoints


def run_inline(
    queue: TrialQueue,
    listener: Listener,
    *,
    resources: Resources,
    predictions: Predictions,
    store: str,
    checkpoint: CheckpointTimes | None,
    keep_weights: bool,
    stop: StopRequest,
) -> None:
    """Run the trials of a queue in order and report to the listener; the same rows as `run_sweep` except for times."""
    torch.set_num_threads(resources.cpus)
    device = device_for(1.0 if resources.gpus == "packed" else float(resources.gpus))
    while not (stop.asked or queue.is_over):
        attempt = queue.take()
        if attempt is None:
            listener.tick()  # others may wait for rows that are not committed yet
            time.sleep(0.1)  # a trial waits for its next attempt, or for another driver
            continue
        listener.started(attempt.spec, attempt.number)
        error: str | None = None
        try:
            storage = StoredCheckpoints(store, attempt.spec.trial_id, attempt.number)
            checkpoints = Checkpoints(storage, checkpoint) if checkpoint else None
            keep = partial(save_weights, open_storage(store), attempt.spec.trial_id) if keep_weights else None
            records = run_trial(
                attempt.spec,
                device=device,
                predictions=predictions,
                checkpoints=checkpoints,
                accumulation=attempt.accumulation,
                keep_weights=keep,
            )
            with reported_to(partial(listener.preparing, attempt.spec)):
                state, error = _run(attempt, records, queue, listener, stop)
            if state is None:
                return
        except Exception as raised:
            state, error = failure(raised)
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
    for record in (each.placed(gpus=each.gpus, worker_slots=1) for each in records):
        verdict = queue.evaluated(attempt.spec, record)
        listener.evaluated(attempt.spec, record)
        if record.last:
            return State.COMPLETED, None
        if stop.asked or verdict is not Verdict.CONTINUE:
            records.close()
            return (None, None) if verdict is Verdict.CONTINUE else (State.PRUNED, prune_reason(verdict, record))
    raise AssertionError("a trial ends with its last record")
