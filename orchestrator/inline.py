"""Run planned trials in this process, one after the other: the reference for Ray, and the place for a breakpoint."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from orchestrator.events import Listener, failure
from orchestrator.stop import StopRequest
from orchestrator.store.schema import State
from orchestrator.sweep import Resources
from trials.run import run_trial
from trials.spec import Predictions, TrialSpec


def run_inline(
    specs: Sequence[TrialSpec],
    listener: Listener,
    *,
    resources: Resources,
    predictions: Predictions,
    stop: StopRequest,
) -> None:
    """Run the trials in order and tell the listener; the same rows as `run_sweep`, but for times."""
    torch.set_num_threads(resources.cpus)
    for spec in specs:
        if stop.asked:
            return
        listener.started(spec)
        try:
            for record in run_trial(spec, predictions=predictions):
                listener.evaluated(spec, record)
                if record.last:
                    listener.ended(spec, State.COMPLETED, None)
                elif stop.asked:
                    return
        except Exception as error:
            listener.ended(spec, *failure(error))
