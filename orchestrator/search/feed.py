"""Feed planned trials to Ray Tune in order, until they are all out or the sweep is asked to stop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ray.tune.search import Searcher

from orchestrator.cluster import Share
from orchestrator.stop import StopRequest
from trials.spec import Predictions, TrialSpec


class PlannedTrials(Searcher):  # type: ignore[misc]  # Ray has no types here
    """A Tune searcher that only reads a list. Tune asks when a worker is free, so the list can end early."""

    def __init__(
        self, specs: Iterable[TrialSpec], *, share: Share, predictions: Predictions, stop: StopRequest
    ) -> None:
        super().__init__()
        self._specs, self._stop = iter(list(specs)), stop
        self._same = {"threads": share.cpus, "gpus": share.gpus, "predictions": predictions}

    def suggest(self, trial_id: str) -> Any:
        """The next trial's config, or the word that there is none."""
        spec = None if self._stop.asked else next(self._specs, None)
        if spec is None:
            return Searcher.FINISHED
        # As text: Tune walks through every level of a config, several times a trial.
        return {"trial_id": spec.trial_id, "label": spec.label, "spec": spec.model_dump_json(), **self._same}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing to learn from."""
