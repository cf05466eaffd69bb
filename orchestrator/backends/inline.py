"""Run the trials of a launch in this process, one after the other: the reference for Ray, and for breakpoints."""

from __future__ import annotations

import time
from collections.abc import Generator
from functools import partial

from orchestrator.backends.backend import BACKENDS, Work
from orchestrator.execution.events import Listener, failure
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import Attempt, TrialQueue, prune_reason
from orchestrator.execution.trial_settings import TrialSettings
from orchestrator.sweeps.cluster_spec import seen_gpus
from orchestrator.sweeps.trial_resources import Resources
from trials.cache.set_up_work import reported_to
from trials.errors import is_device_broken, reason
from trials.hardware.machine import hidden_gpus
from trials.record import EpochRecord, State


@BACKENDS.register("inline")
def inline(work: Work) -> None:
    """Run them here; the same rows as on Ray except for times."""
    sweep, resources = work.plan.sweep, work.plan.sweep.resources
    seen = seen_gpus(work.cluster) if resources.gpus else hidden_gpus()
    settings = TrialSettings.of(sweep, work.results.address)
    work.stop.signals.running(lambda: work.queue.is_over)
    with seen, work.heard(work.cluster.hourly(resources)) as listener:
        _run_all(work.queue, listener, resources=resources, settings=settings, stop=work.stop)


def _run_all(
    queue: TrialQueue, listener: Listener, *, resources: Resources, settings: TrialSettings, stop: StopRequest
) -> None:
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
        continues = queue.evaluated(attempt.spec, record)
        listener.evaluated(attempt.spec, record)
        if record.last:
            return State.COMPLETED, None
        if stop.asked or not continues:
            records.close()
            return (None, None) if continues else (State.PRUNED, prune_reason(record))
    raise AssertionError("a trial ends with its last record")
