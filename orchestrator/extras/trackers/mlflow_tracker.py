"""MLflow: one run per trial, nested under the run of its sweep, on the server that MLFLOW_TRACKING_URI names.

A run is found by the tags `permafrost.sweep` and `permafrost.trial_id`. One with the same attempt and settings is
written again, as a server stores equal metrics of equal times once; any other of this trial is deleted first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient

from orchestrator.extras.trackers.tracked_run import PREFIX, Measured, TrackedRun

_KIND, _SWEEP, _TRIAL, _ATTEMPT = (PREFIX + name for name in ("kind", "sweep", "trial_id", "attempt"))


class _Run(NamedTuple):
    run_id: str
    attempt: str | None
    params: dict[str, str]


class MlflowTracker:
    """A `Tracker` that sends runs to a tracking server. Any call raises MlflowException if it does not answer."""

    def __init__(self, sweep: str, project: str) -> None:
        self._sweep, self._client = sweep, MlflowClient()
        experiment = self._client.get_experiment_by_name(project)
        self._experiment = experiment.experiment_id if experiment else self._client.create_experiment(project)
        self._runs: dict[str, list[_Run]] = {}  # by trial, that of the sweep under the empty text
        self._open: set[str] = set()  # trials
        token = None
        while True:
            page = self._client.search_runs([self._experiment], max_results=1000, page_token=token)
            for run in page:
                if run.data.tags.get(_SWEEP) == sweep:
                    found = _Run(run.info.run_id, run.data.tags.get(_ATTEMPT), run.data.params)
                    self._runs.setdefault(run.data.tags.get(_TRIAL, ""), []).append(found)
            if not (token := page.token):
                break
        if "" not in self._runs:
            self._runs[""] = [_Run(self._created(sweep, {_KIND: "sweep", _SWEEP: sweep}, None), None, {})]

    def begin(self, run: TrackedRun) -> None:
        """Take up the trial's run if it is of this attempt, else begin one with the settings as parameters."""
        params = {name: str(value) for name, value in run.settings.items()}
        earlier = self._runs.pop(run.trial_id, [])
        fitting = [found for found in earlier if (found.attempt, found.params) == (str(run.attempt), params)][:1]
        for found in earlier:
            if found not in fitting:
                self._client.delete_run(found.run_id)
        if not fitting:
            tags = {**run.tags, _KIND: "trial", "mlflow.parentRunId": self._runs[""][0].run_id}
            fitting = [_Run(self._created(run.name, tags, _ms(run.began)), str(run.attempt), params)]
            self._client.log_batch(fitting[0].run_id, params=[Param(*item) for item in params.items()])
        self._runs[run.trial_id] = fitting
        self._open.add(run.trial_id)

    def add(self, run: TrackedRun, evaluations: Sequence[Measured]) -> None:
        """Log the metrics at their steps and times."""
        for evaluation in evaluations:
            self._client.log_batch(self._runs[run.trial_id][0].run_id, metrics=_metrics(evaluation))

    def end(self, run: TrackedRun, summary: Measured) -> None:
        """Log the summary as metrics, and end the run."""
        run_id, tags = self._runs[run.trial_id][0].run_id, [RunTag(*item) for item in run.end_tags.items()]
        self._client.log_batch(run_id, metrics=_metrics(summary), tags=tags)
        self._client.set_terminated(run_id, "FINISHED" if run.is_fine else "FAILED", _ms(summary.time))
        self._open.remove(run.trial_id)

    def finish(self, documents: Mapping[str, str]) -> None:
        """Write the documents as artifacts of the sweep's run, and end it; runs without an end are killed ones."""
        for trial_id in self._open:
            self._client.set_terminated(self._runs[trial_id][0].run_id, "KILLED")
        sweep_run = self._runs[""][0].run_id
        for name, text in documents.items():
            self._client.log_text(sweep_run, text, name)
        self._client.set_terminated(sweep_run, "FINISHED")

    def _created(self, name: str, tags: dict[str, str], began_ms: int | None) -> str:
        run = self._client.create_run(self._experiment, start_time=began_ms, tags=tags, run_name=name)
        return str(run.info.run_id)


def _metrics(measured: Measured) -> list[Metric]:
    return [Metric(name, value, _ms(measured.time), measured.step) for name, value in measured.metrics.items()]


def _ms(time: float) -> int:
    return round(1000 * time)
