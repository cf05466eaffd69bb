"""Weights & Biases: one run per trial, in a group that is named as the sweep; the id of a run is that of its trial.

`resume` stays unset: a run whose id is known already is then written anew. Offline, its earlier folder is removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wandb

from orchestrator.extras.trackers.tracked_run import Measured, TrackedRun, safe_name
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
        """Raises ConfigError: there is no API key; nobody is asked for one."""
        self._is_offline = os.environ.get("WANDB_MODE") == "offline"
        if not self._is_offline and not wandb.login(prompt=False, verify=False):
            raise ConfigError("wandb: no API key. Set WANDB_API_KEY, run `wandb login`, or set WANDB_MODE=offline.")
        self._project, self._sweep, self._folder = project, safe_name(sweep), Path(os.environ.get("WANDB_DIR") or ".")
        self._runs: dict[str, Any] = {}

    def begin(self, run: TrackedRun) -> None:
        """Begin a run with the trial's settings as its configuration."""
        self._finish(run.trial_id, is_fine=False)
        self._runs[run.trial_id] = self._new(run.trial_id, run.name, "trial", {**run.settings, **run.tags})

    def add(self, run: TrackedRun, evaluations: Sequence[Measured]) -> None:
        """Log the metrics at their steps."""
        for step, time, metrics in evaluations:
            self._runs[run.trial_id].log({**metrics, "_timestamp": time}, step=step, commit=True)

    def end(self, run: TrackedRun, summary: Measured) -> None:
        """Write the run's summary and finish it."""
        self._runs[run.trial_id].summary.update({**summary.metrics, **run.end_tags})
        self._finish(run.trial_id, is_fine=run.is_fine)

    def finish(self, documents: Mapping[str, str]) -> None:
        """Write the documents as files of a run `sweep-NAME`; finish all runs."""
        run = self._runs["sweep"] = self._new(f"sweep-{self._sweep}", self._sweep, "sweep", {})
        for name, text in documents.items():
            Path(run.dir, name).write_text(text, encoding="utf-8")
        for key in list(self._runs):
            self._finish(key, is_fine=key == "sweep")

    def _new(self, run_id: str, name: str, kind: str, settings: Mapping[str, Any]) -> Any:
        if self._is_offline:
            for old in self._folder.glob(f"*wandb/offline-run-*-{run_id}/run-{run_id}.wandb"):
                shutil.rmtree(old.parent)
        return wandb.init(
            project=self._project,
            id=run_id,
            name=name,
            group=self._sweep,
            job_type=kind,
            config=dict(settings),
            dir=str(self._folder),
            reinit="create_new",
            settings=_SETTINGS,
        )

    def _finish(self, key: str, *, is_fine: bool) -> None:
        if run := self._runs.pop(key, None):
            run.finish(exit_code=int(not is_fine))
