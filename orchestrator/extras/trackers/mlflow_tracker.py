"""MLflow: one run per trial on the server that MLFLOW_TRACKING_URI names, found by its tags `permafrost.sweep` and
`permafrost.trial_id`; earlier runs of a trial are deleted when it is written again.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient

from orchestrator.extras.trackers.tracked_run import Measured, TrackedRun


class MlflowTracker:
    """A `Tracker` that sends runs to a tracking server. Any call raises MlflowException if it does not answer."""

    def __init__(self, sweep: str, project: str) -> None:
        self._client = MlflowClient()
        experiment = self._client.get_experiment_by_name(project)
        self._experiment = experiment.experiment_id if experiment else self._client.create_experiment(project)
        self._runs: dict[str, list[str]] = {}  # their ids by trial
        self._open: set[str] = set()  # trials
        token, is_first = None, True
        while token or is_first:
            page = self._client.search_runs([self._experiment], max_results=1000, page_token=token)
            for run in page:
                if run.data.tags.get("permafrost.sweep") == sweep:
                    self._runs.setdefault(run.data.tags["permafrost.trial_id"], []).append(run.info.run_id)
            token, is_first = page.token, False

    def begin(self, run: TrackedRun) -> None:
        """Begin a run with the settings as parameters."""
        for run_id in self._runs.pop(run.trial_id, ()):
            self._client.delete_run(run_id)
        began, tags = _ms(run.began), dict(run.tags)
        created = self._client.create_run(self._experiment, start_time=began, tags=tags, run_name=run.name)
        self._runs[run.trial_id] = [created.info.run_id]
        self._open.add(run.trial_id)
        params = [Param(name, str(value)) for name, value in run.settings.items()]
        self._client.log_batch(created.info.run_id, params=params)

    def add(self, run: TrackedRun, evaluations: Sequence[Measured]) -> None:
        """Log the metrics at their steps and times."""
        for evaluation in evaluations:
            self._client.log_batch(self._runs[run.trial_id][0], metrics=_metrics(evaluation))

    def end(self, run: TrackedRun, summary: Measured) -> None:
        """Log the summary as metrics, and end the run."""
        run_id, tags = self._runs[run.trial_id][0], [RunTag(*item) for item in run.end_tags.items()]
        self._client.log_batch(run_id, metrics=_metrics(summary), tags=tags)
        self._client.set_terminated(run_id, "FINISHED" if run.is_fine else "FAILED", _ms(summary.time))
        self._open.remove(run.trial_id)

    def close(self) -> None:
        """Runs without an end are killed ones."""
        for trial_id in self._open:
            self._client.set_terminated(self._runs[trial_id][0], "KILLED")


def _metrics(measured: Measured) -> list[Metric]:
    return [Metric(name, value, _ms(measured.time), measured.step) for name, value in measured.metrics.items()]


def _ms(time: float) -> int:
    return round(1000 * time)
