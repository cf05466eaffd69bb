"""Feed attempts to Ray Tune, until there will be no more or the sweep is asked to stop."""

from __future__ import annotations

from typing import Any

from ray.tune.search import Searcher

from orchestrator.attempts import TrialQueue
from orchestrator.stop import StopRequest


class PlannedTrials(Searcher):  # type: ignore[misc]  # Ray has no types here
    """A Tune searcher that only empties a queue. Tune asks again and again while there may be another."""

    def __init__(self, queue: TrialQueue, same: dict[str, Any], stop: StopRequest) -> None:
        """`same` is what every worker is told."""
        super().__init__()
        self._queue, self._same, self._stop = queue, same, stop

    def suggest(self, trial_id: str) -> Any:
        """The next attempt's config; None if there is none now, or the word that there will be none."""
        if self._stop.asked or self._queue.is_over:
            return Searcher.FINISHED
        attempt = self._queue.take()
        if attempt is None:
            return None
        spec = attempt.spec
        return {
            "trial_id": spec.trial_id,
            "label": spec.label if attempt.number == 1 else f"{spec.label}_{attempt.number}",
            "spec": spec.model_dump_json(),  # as text: Tune walks through every level of a config, several times
            "attempt": attempt.number,
            "accumulation": attempt.accumulation,
            **self._same,
        }

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing to learn from."""
