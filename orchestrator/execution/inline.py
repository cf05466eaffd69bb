"""Run planned trials in this process, one after the other: the reference for Ray, and the way to set breakpoints."""

from __future__ import annotations

import time

import torch

from orchestrator.execution.checkpoint_store import StoredCheckpoints
from orchestrator.execution.events import Listener, failure
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import Attempt, TrialQueue
from orchestrator.execution.trial_source import Verdict, prune_reason
from orchestrator.store.schema import State
from orchestrator.sweeps.sweep import Resources
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
    stop: StopRequest,
) -> None:
    """Run the trials of a queue in order and report to the listener; the same rows as `run_sweep` except for times."""
    torch.set_num_threads(resources.cpus)
    while not (stop.asked or queue.is_over):
        attempt = queue.take()
        if attempt is None:
            time.sleep(0.1)  # a trial waits for its next attempt
            continue
        listener.started(attempt.spec, attempt.number)
        error: str | None = None
        try:
            storage = StoredCheckpoints(store, attempt.spec.trial_id, attempt.number)
            checkpoints = Checkpoints(storage, checkpoint) if checkpoint else None
            state, error = _run(attempt, queue, listener, predictions, checkpoints, stop)
            if state is None:
                return
        except Exception as raised:
            state, error = failure(raised)
        report = listener.ended if queue.ended(attempt.spec, state, error) is None else listener.retried
        report(attempt.spec, state, error)
        stop.reason = stop.reason or queue.broken


def _run(
    attempt: Attempt,
    queue: TrialQueue,
    listener: Listener,
    predictions: Predictions,
    checkpoints: Checkpoints | None,
    stop: StopRequest,
) -> tuple[State | None, str | None]:
    """Run an attempt; its state and the reason if it is not completed. The state is None if the sweep was stopped."""
    records = run_trial(
        attempt.spec, predictions=predictions, checkpoints=checkpoints, accumulation=attempt.accumulation
    )
    for record in records:
        verdict = queue.evaluated(attempt.spec, record)
        listener.evaluated(attempt.spec, record)
        if record.last:
            return State.COMPLETED, None
        if stop.asked or verdict is not Verdict.CONTINUE:
            records.close()
            return (None, None) if verdict is Verdict.CONTINUE else (State.PRUNED, prune_reason(verdict, record))
    raise AssertionError("a trial ends with its last record")
