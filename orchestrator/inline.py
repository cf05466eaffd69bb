"""Run planned trials in this process, one after the other: the reference for Ray, and the place for a breakpoint."""

from __future__ import annotations

import time

import torch

from orchestrator.attempts import Attempt, TrialQueue
from orchestrator.checkpoints import StoredCheckpoints
from orchestrator.events import Listener, failure
from orchestrator.stop import StopRequest
from orchestrator.store.schema import State
from orchestrator.sweep import CheckpointSpec, Resources
from trials.checkpoint import Checkpoints
from trials.run import run_trial
from trials.spec import Predictions


def run_inline(
    queue: TrialQueue,
    listener: Listener,
    *,
    resources: Resources,
    predictions: Predictions,
    store: str,
    checkpoint: CheckpointSpec,
    stop: StopRequest,
) -> None:
    """Run the trials of a queue in order and tell the listener; the same rows as `run_sweep`, but for times."""
    torch.set_num_threads(resources.cpus)
    while not (stop.asked or queue.is_over):
        attempt = queue.take()
        if attempt is None:
            time.sleep(0.1)  # one waits to be tried again
            continue
        listener.started(attempt.spec, attempt.number)
        state, error = State.COMPLETED, None
        try:
            if not _run(attempt, queue, listener, predictions, _kept(store, attempt, checkpoint), stop):
                return
        except Exception as raised:
            state, error = failure(raised)
        told = listener.ended if queue.ended(attempt.spec, state, error) is None else listener.retried
        told(attempt.spec, state, error)
        stop.reason = stop.reason or queue.broken


def _run(
    attempt: Attempt,
    queue: TrialQueue,
    listener: Listener,
    predictions: Predictions,
    kept: Checkpoints | None,
    stop: StopRequest,
) -> bool:
    """Run an attempt; whether to its end."""
    records = run_trial(attempt.spec, predictions=predictions, checkpoints=kept, accumulation=attempt.accumulation)
    for record in records:
        queue.evaluated(attempt.spec)
        listener.evaluated(attempt.spec, record)
        if record.last:
            return True
        if stop.asked:
            records.close()
            return False
    raise AssertionError("a trial ends with its last record")


def _kept(store: str, attempt: Attempt, every: CheckpointSpec) -> Checkpoints | None:
    if every.is_off:
        return None
    return Checkpoints(StoredCheckpoints(store, attempt.spec.trial_id, attempt.number), **every.times())
