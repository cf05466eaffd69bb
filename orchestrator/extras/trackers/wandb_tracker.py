"""Weights & Biases: one run per trial, in a group that is named as the sweep; the id of a run is that of its trial.

`resume` stays unset: a run whose id is known already is then written anew. Offline, its earlier folder is removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import wandb

from orchestrator.extras.trackers.tracked_run import Measured, TrackedRun
from trials.errors import ConfigError

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
    """A `Tracker` that writes runs of a project, into `WANDB_DIR` or the current folder with WANDB_MODE=offline."""

    def __init__(self, sweep: str, project: str) -> None:
        """Raises ConfigError if there is no API key, as W&B would otherwise prompt for one."""
        self._is_offline = os.environ.get("WANDB_MODE") == "offline"
        if not self._is_offline and not wandb.login(prompt=False, verify=False):
            raise ConfigError("wandb: no API key. Set WANDB_API_KEY, run `wandb login`, or set WANDB_MODE=offline.")
        self._project, self._sweep, self._folder = project, sweep, Path(os.environ.get("WANDB_DIR") or ".")
        self._runs: dict[str, Any] = {}

    def begin(self, run: TrackedRun) -> None:
        """Begin a run with the trial's settings as its configuration."""
        if attempt := self._runs.pop(run.trial_id, None):
            attempt.finish(exit_code=1)
        if self._is_offline:
            for old in self._folder.glob(f"*wandb/offline-run-*-{run.trial_id}/run-{run.trial_id}.wandb"):
                shutil.rmtree(old.parent)
        self._runs[run.trial_id] = wandb.init(
            project=self._project,
            id=run.trial_id,
            name=run.name,
            group=self._sweep,
            config={**run.settings, **run.tags},
            dir=str(self._folder),
            reinit="create_new",
            settings=_SETTINGS,
        )

    def add(self, run: TrackedRun, evaluations: Sequence[Measured]) -> None:
        """Log the metrics at their steps."""
        for step, time, metrics in evaluations:
            self._runs[run.trial_id].log({**metrics, "_timestamp": time}, step=step, commit=True)

    def end(self, run: TrackedRun, summary: Measured) -> None:
        """Write the run's summary and finish it."""
        self._runs[run.trial_id].summary.update({**summary.metrics, **run.end_tags})
        self._runs.pop(run.trial_id).finish(exit_code=int(not run.is_fine))

    def close(self) -> None:
        """Finish the runs without an end."""
        for run in self._runs.values():
            run.finish(exit_code=1)
