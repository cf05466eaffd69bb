"""MLflow: a run a trial, nested under the run of its sweep.

A run is found by the tags `permafrost.sweep` and `permafrost.trial_id`. One with the same attempt and settings is
written again, as a server stores equal metrics of equal times once; any other of this trial is deleted first.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import wandb
from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient
from mlflow.utils.credentials import read_mlflow_creds
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import metadata, plugin_data_pb2
from tensorboard.plugins.hparams.api_pb2 import Status
from tensorboard.summary.writer.record_writer import RecordWriter

from orchestrator.extras.trackers.tracked_run import PREFIX, Measured, TrackedTrial, TrialEnd, safe_name
from orchestrator.sweeps.watch_spec import MlflowSpec, WandbSpec
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
        found = self._client.get_experiment_by_name(spec.experiment)
        self._experiment = found.experiment_id if found else self._client.create_experiment(spec.experiment)
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
    found = read_mlflow_creds()
    has_any = found.username or found.password or any(os.environ.get(name) for name in _SECRETS)
    if has_any and os.environ.get(_SERVER, "").rstrip("/") != uri.rstrip("/"):
        raise ConfigError(
            f"mlflow: there are credentials, but not for {uri}. Set {_SERVER} to the server they are for."
        )


# TensorBoard: a folder a trial with scalars and hparams, `DIR/SWEEP/NAME-TRIAL`; the sweep's summary as text.
#
# The files are written without TensorFlow and hold nothing but what the rows hold, so writing them again gives the same
# bytes.

FILE = "events.out.tfevents.permafrost"  # TensorBoard reads whatever has `tfevents` in its name
_SUMMARY = "summary"  # the folder of the sweep's text


class TensorboardTracker:
    """A `Tracker` that writes event files below a folder."""

    def __init__(self, folder: Path, sweep: str) -> None:
        self._folder = folder / safe_name(sweep)
        self._files: dict[str, _EventFile] = {}

    def begin(self, trial: TrackedTrial) -> None:
        """Begin the trial's file. One of an earlier name of the trial is removed."""
        self._close(trial)
        folder = self._folder / f"{safe_name(trial.name)}-{trial.trial_id}"
        for old in self._folder.glob(f"*-{trial.trial_id}/{FILE}"):
            old.unlink()
            if old.parent != folder:
                with suppress(OSError):  # other files in it stay
                    old.parent.rmdir()
        file = self._files[trial.trial_id] = _EventFile(folder, trial.began)
        start = plugin_data_pb2.SessionStartInfo(
            group_name=trial.tags["permafrost.setting"], start_time_secs=trial.began
        )
        for name, value in trial.settings.items():
            kind = "bool_value" if isinstance(value, bool) else "string_value" if isinstance(value, str) else None
            setattr(start.hparams[name], kind or "number_value", value)
        file.add_hparams(metadata.SESSION_START_INFO_TAG, trial.began, session_start_info=start)

    def evaluated(self, trial: TrackedTrial, evaluation: Measured) -> None:
        """Add a scalar for each metric."""
        self._files[trial.trial_id].add_scalars(evaluation)

    def ended(self, trial: TrackedTrial, end: TrialEnd) -> None:
        """Add the summary as scalars and the session's end, and close the file."""
        file, status = self._files[trial.trial_id], "STATUS_SUCCESS" if end.is_fine else "STATUS_FAILURE"
        file.add_scalars(end.summary)
        ended = plugin_data_pb2.SessionEndInfo(status=Status.Value(status), end_time_secs=end.summary.time)
        file.add_hparams(metadata.SESSION_END_INFO_TAG, end.summary.time, session_end_info=ended)
        self._close(trial)

    def finish(self, documents: Mapping[str, str]) -> None:
        """Write the documents as texts, and close all files."""
        file = _EventFile(self._folder / _SUMMARY, 0.0)
        for name, text in documents.items():
            file.add_text(name, text)
        file.close()
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _close(self, trial: TrackedTrial) -> None:
        if file := self._files.pop(trial.trial_id, None):
            file.close()


class _EventFile:
    """An event file, from its beginning; every event is on the disk when a call returns."""

    def __init__(self, folder: Path, time: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).unlink(missing_ok=True)
        self._file: IO[bytes] = (folder / FILE).open("xb")
        self._writer = RecordWriter(self._file)
        self._add(Event(wall_time=time, file_version="brain.Event:2"))

    def add_scalars(self, measured: Measured) -> None:
        values = [Summary.Value(tag=name, simple_value=value) for name, value in measured.metrics.items()]
        self._add(Event(wall_time=measured.time, step=measured.step, summary=Summary(value=values)))

    def add_hparams(self, tag: str, time: float, **content: Any) -> None:
        about = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(**content))
        value = Summary.Value(tag=tag, metadata=about, tensor=metadata.NULL_TENSOR)
        self._add(Event(wall_time=time, summary=Summary(value=[value])))

    def add_text(self, name: str, text: str) -> None:
        plugin = SummaryMetadata.PluginData(plugin_name="text")
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()], tensor_shape=shape)
        value = Summary.Value(tag=name, metadata=SummaryMetadata(plugin_data=plugin), tensor=tensor)
        self._add(Event(summary=Summary(value=[value])))

    def _add(self, event: Any) -> None:
        self._writer.write(event.SerializeToString(deterministic=True))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


# Weights & Biases: a run a trial, in a group that is named as the sweep; the id of a run is that of its trial.
#
# `resume` stays unset: a run whose id is known already is then written anew. Offline, its earlier folder is removed.

# Nothing of the machine, its code or the terminal is recorded.
_SETTINGS = wandb.Settings(
    console="off",
    disable_code=True,
    disable_git=True,
    disable_job_creation=True,
    host="permafrost",
    silent=True,
    x_disable_machine_info=True,
    x_disable_meta=True,
    x_disable_stats=True,
    x_save_requirements=False,
)


class WandbTracker:
    """A `Tracker` that writes runs of a project, into `WANDB_DIR` or the current folder if it is offline."""

    def __init__(self, spec: WandbSpec, sweep: str) -> None:
        """Raises ConfigError: there is no API key; nobody is asked for one."""
        if spec.mode == "online" and not wandb.login(prompt=False, verify=False):
            raise ConfigError("wandb: no API key. Set WANDB_API_KEY, or run `wandb login`.")
        self._spec, self._sweep, self._folder = spec, safe_name(sweep), Path(os.environ.get("WANDB_DIR") or ".")
        self._runs: dict[str, Any] = {}

    def begin(self, trial: TrackedTrial) -> None:
        """Begin a run with the trial's settings as its configuration."""
        self._finish(trial.trial_id, is_fine=False)
        self._runs[trial.trial_id] = self._new(trial.trial_id, trial.name, "trial", {**trial.settings, **trial.tags})

    def evaluated(self, trial: TrackedTrial, evaluation: Measured) -> None:
        """Log the metrics at their step."""
        metrics = {**evaluation.metrics, "_timestamp": evaluation.time}
        self._runs[trial.trial_id].log(metrics, step=evaluation.step, commit=True)

    def ended(self, trial: TrackedTrial, end: TrialEnd) -> None:
        """Write the run's summary and finish it."""
        self._runs[trial.trial_id].summary.update({**end.summary.metrics, **end.tags})
        self._finish(trial.trial_id, is_fine=end.is_fine)

    def finish(self, documents: Mapping[str, str]) -> None:
        """Write the documents as files of a run `sweep-NAME`; finish all runs."""
        run = self._runs["sweep"] = self._new(f"sweep-{self._sweep}", self._sweep, "sweep", {})
        for name, text in documents.items():
            Path(run.dir, name).write_text(text, encoding="utf-8")
        for key in list(self._runs):
            self._finish(key, is_fine=key == "sweep")

    def _new(self, run_id: str, name: str, kind: str, settings: Mapping[str, Any]) -> Any:
        if self._spec.mode == "offline":
            for old in self._folder.glob(f"*wandb/offline-run-*-{run_id}/run-{run_id}.wandb"):
                shutil.rmtree(old.parent)
        return wandb.init(
            project=self._spec.project,
            id=run_id,
            name=name,
            group=self._sweep,
            job_type=kind,
            config=dict(settings),
            dir=str(self._folder),
            mode=self._spec.mode,
            reinit="create_new",
            settings=_SETTINGS,
        )

    def _finish(self, key: str, *, is_fine: bool) -> None:
        if run := self._runs.pop(key, None):
            run.finish(exit_code=int(not is_fine))
