"""Weights & Biases: one run per trial, in a group that is named as the sweep; the id of a run is that of its trial.

`resume` stays unset: a run whose id is known already is then written anew. Offline, its earlier folder is removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from orchestrator.extras.trackers.tracked_run import Measured, TrackedTrial, TrialEnd, safe_name
from orchestrator.sweeps.watch_spec import WandbSpec
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
