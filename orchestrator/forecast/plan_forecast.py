"""The forecast of a plan from a store, for the commands `plan` and `launch`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from orchestrator.forecast.forecast import forecast
from orchestrator.forecast.history import read_history
from orchestrator.forecast.observation import Inputs, Observation
from orchestrator.forecast.pilot import Pilots
from orchestrator.forecast.values import Forecast, Hardware
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.this_machine import slots_of

INLINE_START_S, RAY_START_S = 5.0, 9.0  # defaults: importing torch, and starting Ray, which takes 4 to 11 s
MOST_START_S = 120.0


def forecast_of(
    plan: Plan,
    store: ResultStore,
    cluster: ClusterSpec,
    *,
    pilots: Pilots | None = None,
    slots: int | None = None,
) -> Forecast:
    """The forecast of the trials that a plan has left to run.

    Args:
        pilots: If given, runs pilots of shapes without past trials.
        slots: Trials that run at the same time; by default as many as the machine or the cluster file allows.

    Raises:
        MissingError: A pilot ended early.
        StoreError: The store cannot be read.
    """
    inputs, resources = Inputs(plan.ahead), plan.sweep.resources
    history = read_history(store, cluster, resources, inputs, time.time())
    timed: list[Observation] = []
    if pilots is not None:
        observed = {one.shape for one in history.observations} if history.newest_launch else set[str]()
        timed = pilots.of(plan.ahead, observed, resources.cpus, gpu=history.target.gpus > 0)
    default_start = INLINE_START_S if cluster.address == "inline" else RAY_START_S
    starts = _past_starts(store, history.observations) or [default_start]
    hardware = Hardware(
        slots=slots or slots_of(cluster, resources, history.target.gpus),
        cpus=resources.cpus,
        gpus=history.target.gpus,
        start_s=float(np.median(starts)),
        prices=cluster.prices,
        is_here=cluster.is_here,
        kind=history.target.device or "" if resources.device in ("any", "one") else resources.device,
    )
    return forecast(plan.sweep.name, plan.ahead, history, timed, hardware, inputs)


def _past_starts(store: ResultStore, observations: Sequence[Observation]) -> list[float]:
    """Seconds from each past launch to its first trial."""
    if not observations:
        return []
    starts = []
    for plan in store.sweeps():
        ids = {trial_id for trial_id, _ in plan.trials}
        began = [o.ended - o.seconds for o in observations if o.spec.trial_id in ids and o.ended > plan.time]
        if began and 0 <= min(began) - plan.time < MOST_START_S:
            starts.append(min(began) - plan.time)
    return starts
