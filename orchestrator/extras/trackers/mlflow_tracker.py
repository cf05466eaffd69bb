"""MLflow: one run per trial, nested under the run of its sweep.

A run is found by the tags `permafrost.sweep` and `permafrost.trial_id`. One with the same attempt and settings is
written again, as a server stores equal metrics of equal times once; any other of this trial is deleted first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient
from mlflow.utils.credentials import read_mlflow_creds

from orchestrator.extras.trackers.tracked_run import PREFIX, Measured, TrackedTrial, TrialEnd
from orchestrator.sweeps.watch_spec import MlflowSpec
from trials.errors import ConfigError

_SERVER = "MLFLOW_TRACKING_URI"
_SECRETS = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_AUTH", "MLFLOW_TRACKING_AWS_SIGV4")
_PARENT = "mlflow.parentRunId"
_KIND, _SWEEP, _TRIAL, _ATTEMPT = (PREFIX + name for name in ("kind", "sweep", "trial_id", "attempt"))


class _Run(NamedTuple):
    run_id: str
    attempt: str | None
    params: dict[str, str]


class MlflowTracker:
    """A `Tracker` that sends runs to a tracking server."""

    def __init__(self, spec: MlflowSpec, sweep: str) -> None:
        """Find the experiment, or create it, and the runs that it has of this sweep.

        Raises:
            ConfigError: There are credentials, and they are not said to be for this server.
            MlflowException: The server cannot be reached.
        """
        _check_credentials(spec.uri)
        if not sweep.isprintable() or re.search(r"['`\\]", sweep):  # as a filter's text cannot be escaped
            raise ConfigError(f"mlflow: {sweep!r:.80} is not a name of a sweep.")
        self._sweep, self._client = sweep, MlflowClient(tracking_uri=spec.uri)
        experiment = self._client.get_experiment_by_name(spec.experiment)
        self._experiment = experiment.experiment_id if experiment else self._client.create_experiment(spec.experiment)
        self._runs: dict[str, str] = {}  # ids of open runs, by trial
        self._sweep_run: str | None = None
        self._earlier: dict[str, list[_Run]] = {}  # by trial
        for run in self._listed():
            tags = run.data.tags
            if tags.get(_KIND) == "sweep":
                self._sweep_run = run.info.run_id
            elif trial_id := tags.get(_TRIAL):
                earlier = _Run(run.info.run_id, tags.get(_ATTEMPT), run.data.params)
                self._earlier.setdefault(trial_id, []).append(earlier)

    def begin(self, trial: TrackedTrial) -> None:
        """Take up the trial's run if it is of this attempt, else begin one with the settings as parameters."""
        params = {name: str(value) for name, value in trial.settings.items()}
        fitting = None
        for run in self._earlier.pop(trial.trial_id, []):
            if fitting is None and (run.attempt, run.params) == (str(trial.attempt), params):
                fitting = run
            else:
                self._client.delete_run(run.run_id)
        if fitting is None:
            tags = {**trial.tags, _KIND: "trial", _PARENT: self._run_of_sweep(trial.began)}
            fitting = _Run(self._created(trial.began, trial.name, tags), str(trial.attempt), params)
            self._client.log_batch(fitting.run_id, params=[Param(*item) for item in params.items()])
        self._runs[trial.trial_id] = fitting.run_id
        self._earlier[trial.trial_id] = [fitting]  # for another attempt

    def evaluated(self, trial: TrackedTrial, evaluation: Measured) -> None:
        """Log the metrics at their step and time."""
        self._client.log_batch(self._runs[trial.trial_id], metrics=_metrics(evaluation))

    def ended(self, trial: TrackedTrial, end: TrialEnd) -> None:
        """Log the summary as metrics, and end the run."""
        run_id, tags = self._runs.pop(trial.trial_id), [RunTag(*item) for item in end.tags.items()]
        self._client.log_batch(run_id, metrics=_metrics(end.summary), tags=tags)
        self._client.set_terminated(run_id, "FINISHED" if end.is_fine else "FAILED", _ms(end.summary.time))

    def finish(self, documents: Mapping[str, str]) -> None:
        """Write the documents as artifacts of the sweep's run, and end it; runs without an end are killed ones."""
        for run_id in self._runs.values():
            self._client.set_terminated(run_id, "KILLED")
        self._runs.clear()
        sweep_run = self._run_of_sweep(None)
        for name, text in documents.items():
            self._client.log_text(sweep_run, text, name)
        self._client.set_terminated(sweep_run, "FINISHED")

    def _listed(self) -> list[Any]:
        """All runs of this sweep that are not deleted."""
        where, runs, token = f"tags.`{_SWEEP}` = '{self._sweep}'", list[Any](), None
        while True:
            page = self._client.search_runs([self._experiment], where, max_results=1000, page_token=token)
            runs += page
            token = page.token
            if not token:
                return runs

    def _run_of_sweep(self, began: float | None) -> str:
        if self._sweep_run is None:
            self._sweep_run = self._created(began, self._sweep, {_KIND: "sweep", _SWEEP: self._sweep})
        return self._sweep_run

    def _created(self, began: float | None, name: str, tags: dict[str, str]) -> str:
        start = None if began is None else _ms(began)
        run = self._client.create_run(self._experiment, start_time=start, tags=tags, run_name=name)
        return str(run.info.run_id)


def _metrics(measured: Measured) -> list[Metric]:
    time = _ms(measured.time)
    return [Metric(name, value, time, measured.step) for name, value in measured.metrics.items()]


def _ms(time: float) -> int:
    return round(1000 * time)


def _check_credentials(uri: str) -> None:
    """Credentials go to the server that the environment names only, as a sweep may come from elsewhere."""
    credentials = read_mlflow_creds()
    has_any = credentials.username or credentials.password or any(os.environ.get(name) for name in _SECRETS)
    if has_any and os.environ.get(_SERVER, "").rstrip("/") != uri.rstrip("/"):
        raise ConfigError(
            f"mlflow: there are credentials, but not for {uri}. Set {_SERVER} to the server they are for."
        )
