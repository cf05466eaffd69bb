"""Feed attempts to Ray Tune, until there will be no more or the sweep is asked to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from orchestrator.execution.slots import Share, Slots
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import TrialQueue
from orchestrator.ray_backend.cluster import resources_of
from orchestrator.ray_backend.trial_pruning_patch import forget_finished


class PlannedTrials(Searcher):  # type: ignore[misc]  # Ray has no types here
    """A Tune searcher that only empties a queue. Tune asks again and again while there may be another."""

    def __init__(
        self, queue: TrialQueue, slots: Slots, told: Callable[[Share], dict[str, Any]], stop: StopRequest
    ) -> None:
        """`told` is what every worker is told, by what its trial gets."""
        super().__init__()
        self._queue, self._slots, self._told, self._stop = queue, slots, told, stop

    def suggest(self, trial_id: str) -> Any:
        """The next attempt's config; None if there is none or no room now, or the word that there will be none."""
        if self._stop.asked or self._queue.is_over:
            return Searcher.FINISHED
        kind = self._slots.free_kind()
        attempt = None if kind is None else self._queue.take()
        if attempt is None or kind is None:
            return None
        spec = attempt.spec
        share = self._slots.take(spec.trial_id, kind)
        return {
            "trial_id": spec.trial_id,
            "label": spec.label if attempt.number == 1 else f"{spec.label}_{attempt.number}",
            "spec": spec.model_dump_json(),  # as text: Tune walks through every level of a config, several times
            "attempt": attempt.number,
            "accumulation": attempt.accumulation,
            "until": attempt.until,
            "resources": resources_of(kind, share),
            **self._told(share),
        }

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing to learn from."""


class NoPick(FIFOScheduler):  # type: ignore[misc]  # Ray has no types here
    """Picks no trial out of those that wait; Tune starts them in their order anyway.

    Tune's own picks the first that waits, which has two costs. To find it, all trials there ever were are looked at, at
    each event. And one whose worker is still starting gets the first warm one that is free, while its own is thrown
    away: where trials are shorter than a worker's start, all but one worker never come to work.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """None, so that the next trial takes the warm worker, and who waits for a new one keeps it."""
        forget_finished(tune_controller._tune_controller)  # asked here before each event, and between two of them
