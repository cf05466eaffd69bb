"""The trackers that a sweep names, ready to be opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.sweeps.notification_spec import WatchSpec
from orchestrator.sweeps.tracker_spec import MlflowSpec, WandbSpec
from orchestrator.trackers.tracked_run import Tracker


@dataclass(frozen=True)
class TrackerTarget:
    """A tracker that can be opened, again after it failed.

    Attributes:
        name: Its key under `watch`.
        options: Those of `permafrost export NAME` that lead to it.
        open: Imports its package, which takes seconds, and connects; its argument is the name of the sweep.
    """

    name: str
    options: tuple[str, ...]
    open: Callable[[str], Tracker]


def targets_of(watch: WatchSpec) -> list[TrackerTarget]:
    """The trackers that a sweep names; their packages are installed (`tracker_spec.check_installed`)."""
    found = []
    if watch.mlflow is not None:
        found.append(mlflow_target(watch.mlflow))
    if watch.tensorboard is not None:
        found.append(tensorboard_target(Path(watch.tensorboard)))
    if watch.wandb is not None:
        found.append(wandb_target(watch.wandb))
    return found


# Each is read on import or at every request, and a person may set it otherwise.
_MLFLOW = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def mlflow_target(spec: MlflowSpec) -> TrackerTarget:
    """An experiment on a tracking server of MLflow."""

    def opened(sweep: str) -> Tracker:
        for name, value in _MLFLOW.items():
            os.environ.setdefault(name, value)
        from orchestrator.trackers.mlflow_tracker import MlflowTracker

        return MlflowTracker(spec, sweep)

    return TrackerTarget("mlflow", ("--uri", spec.uri, "--experiment", spec.experiment), opened)


def tensorboard_target(folder: Path) -> TrackerTarget:
    """TensorBoard's files below a folder."""

    def opened(sweep: str) -> Tracker:
        from orchestrator.trackers.tensorboard_tracker import TensorboardTracker

        return TensorboardTracker(folder.expanduser(), sweep)

    return TrackerTarget("tensorboard", ("--dir", str(folder)), opened)


def wandb_target(spec: WandbSpec) -> TrackerTarget:
    """A project of Weights & Biases."""

    def opened(sweep: str) -> Tracker:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # it is read on import
        from orchestrator.trackers.wandb_tracker import WandbTracker

        return WandbTracker(spec, sweep)

    return TrackerTarget("wandb", ("--project", spec.project, "--mode", spec.mode), opened)
