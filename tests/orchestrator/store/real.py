"""A small store as launches leave it: two trials complete, one interrupted and kept at its first epoch."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import typer

from orchestrator.commands.launch_command import launch
from orchestrator.execution.recorder import Recorder
from orchestrator.store import open_store
from orchestrator.store.schema import KEYS, METRICS
from orchestrator.store.stored_tensors import StoredCheckpoints
from tests.builders import expanded, write_sweep
from tests.small_sweeps import POS, write_bank
from trials.run import run_trial
from trials.training.checkpoint import Checkpoints
from trials.training.checkpoint_times import CheckpointTimes

# What two runs of one trial must agree in; the other columns are measured, or say where it ran.
COMPUTED = {
    "epochs": ("epoch", "train_loss", "step_losses", "dev_loss", "score", *METRICS, "examples_seen", "lr"),
    "trials": (
        "state", "total_params", "trainable_params", "best_score", "best_epoch", "last_epoch", "test_score",
        "best_metrics", "test_metrics",
    ),
    "tags": ("support", "predicted", "correct"),
    "predictions": ("forms", "gold", "predicted", "probability"),
    "contributions": ("values",),
    "commits": (),
}  # fmt: skip


@dataclass(frozen=True)
class Real:
    """The store, and the sweep of all three trials."""

    store: Path
    sweep: Path

    @cached_property
    def finished(self) -> dict[str, list[list[Any]]]:
        """What the trials come to when it is launched again."""
        copy = shutil.copytree(self.store, self.store.with_name("finished"))
        run_sweep(self.sweep, copy)
        return numbers(copy)

    def copy(self, folder: Path) -> Path:
        """A copy of the store that may be spoiled."""
        return Path(shutil.copytree(self.store, folder / "store"))

    def files(self) -> list[str]:
        """Every file of it."""
        return sorted(str(path.relative_to(self.store)) for path in self.store.rglob("*") if path.is_file())


def make_real(folder: Path) -> Real:
    """Train two trials, and a third for an epoch."""
    write_bank(folder / "bank", train=24, dev=8, test=8)
    text = POS.replace("folder: ", f"folder: {folder}/") + "checkpoint: {epochs: 1}\nname: small\n"
    run_sweep(write_sweep(folder / "small.yaml", text), folder / "store")
    larger = write_sweep(folder / "larger.yaml", text.replace("seeds: [0, 1]", "seeds: [0, 1, 2]"))
    _interrupt(folder / "store", larger)
    return Real(folder / "store", larger)


def _interrupt(store: Path, sweep: Path) -> None:
    spec = expanded(sweep)[-1]
    checkpoints = Checkpoints(StoredCheckpoints(str(store), spec.trial_id, 1), CheckpointTimes(epochs=1))
    records, recorder = run_trial(spec, checkpoints=checkpoints), Recorder(open_store(store))
    recorder.started(spec, 1)
    recorder.evaluated(spec, next(records))
    recorder.flush()
    records.close()


def run_sweep(sweep: Path, store: Path | str) -> None:
    """Launch it in this process to its good end."""
    with pytest.raises(typer.Exit) as ended:
        launch(sweep, "inline", str(store))
    assert ended.value.exit_code == 0


def numbers(store: Path | str) -> dict[str, list[list[Any]]]:
    """What readers show and a second run would compute again, as text, so that no number is like no other."""
    found = open_store(store)
    tables = {
        "epochs": found.epochs(),
        "trials": found.trials(),
        "tags": found.tags(),
        "predictions": found.predictions(),
        "contributions": found.contributions(),
    }
    keys = {name: [key for key in KEYS[name] if key != "attempt"] for name in tables}
    return {
        name: [[repr(row[column]) for column in (*keys[name], *COMPUTED[name])] for row in table.to_pylist()]
        for name, table in tables.items()
    }
