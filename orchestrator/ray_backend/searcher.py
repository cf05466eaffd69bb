"""Hand attempts to Ray Tune until the queue is over or the sweep is asked to stop."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from orchestrator.execution.slots import Share, Slots
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import TrialQueue
from orchestrator.ray_backend.cluster import resources_of

N_KEPT = 100  # finished trials that stay: Tune's table needs some, and removing them in batches is cheaper


class PlannedTrials(Searcher):  # type: ignore[misc]  # Ray has no types here
    """A Tune searcher that only takes from a queue. Tune keeps asking while there may be another attempt."""

    def __init__(
        self,
        queue: TrialQueue,
        slots: Slots,
        worker_config: Callable[[Share], dict[str, Any]],
        stop: StopRequest,
        tick: Callable[[], None],
    ) -> None:
        """`worker_config` makes the part of a config that is the same for all trials with the same share; `tick` is
        called when there is no attempt. While none runs either, Tune asks for one for up to ten minutes and does
        nothing else, and rows not committed yet may be what another driver waits for, as this one does for its rows.
        """
        super().__init__()
        self._tick = tick
        self._queue, self._slots, self._worker_config, self._stop = queue, slots, worker_config, stop

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its searcher into a snapshot that nothing reads

    def suggest(self, trial_id: str) -> Any:
        """The next attempt's config; None if there is none or no room now; FINISHED if there will be none."""
        if self._stop.asked or self._queue.is_over:
            return Searcher.FINISHED
        kind = self._slots.free_kind()
        attempt = None if kind is None else self._queue.take()
        if attempt is None or kind is None:
            self._tick()
            return None
        spec = attempt.spec
        share = self._slots.take(spec.trial_id, kind)
        return {
            "trial_id": spec.trial_id,
            "label": spec.label if attempt.number == 1 else f"{spec.label}_{attempt.number}",
            "spec": spec.model_dump_json(),  # as text: Tune traverses every level of a config, several times
            "attempt": attempt.number,
            "accumulation": attempt.accumulation,
            "until": attempt.until,
            "resources": resources_of(kind, share),
            "worker_slots": self._slots.on_one_node(kind),
            **self._worker_config(share),
        }

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing to learn from it."""


class KeepOrderScheduler(FIFOScheduler):  # type: ignore[misc]  # Ray has no types here
    """Selects no pending trial, so that Tune starts them in their order.

    Tune's own scheduler selects the first pending trial, which has two costs. To find it, it scans all past and
    present trials at each event. And a trial whose worker is still starting gets the first idle worker, while its own
    is thrown away: if trials are shorter than a worker's start, all workers but one never run a trial.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """None, so that the next trial takes the idle worker, and one that waits for a new worker keeps it."""
        forget_finished(tune_controller._tune_controller)  # Tune calls this before each event


def forget_finished(controller: Any) -> None:
    """Remove all but the newest finished trials from a `TuneController`, once there are twice as many.

    Tune keeps every trial for a table of results that is not used here: its `Trial` objects hold their config twice,
    the last result and a reference into Ray's object store, 16 KB in all (Ray 2.60, 5,000 trials in one driver). A
    trial that has left its worker is never accessed again: later events refer to the worker's current trial.
    """
    over = [controller._stopped_trials, controller._failed_trials]
    if sum(map(len, over)) < 2 * N_KEPT:
        return
    finished = set(chain(*over)) - controller._trial_to_actor.keys()
    oldest = set([trial for trial in controller._trials if trial in finished][:-N_KEPT])
    controller._trials[:] = [trial for trial in controller._trials if trial not in oldest]
    for trials in (*over, controller._trials_to_cache):
        trials -= oldest
