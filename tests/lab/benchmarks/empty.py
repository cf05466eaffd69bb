"""Trials that do nothing, through our driver and through Ray Tune alone. Imported when a cluster is up."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ray import tune

from orchestrator.config.limits import Limits
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.slots import ANY, Share, Slots
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import TrialQueue
from orchestrator.execution.trial_source import Listed
from orchestrator.ray_backend.cluster import Cluster
from orchestrator.ray_backend.driver import run_sweep
from orchestrator.ray_backend.trainable import TrialTrainable, WorkerSettings
from orchestrator.store import ResultStore
from tests.builders import make_record
from tests.lab.benchmarks.overhead import driver_mb
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.state import State


class EmptyTrainable(TrialTrainable):
    """Our trainable around a trial that ends at once."""

    def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
        """One record."""
        yield make_record(last=True)


class RawTrainable(tune.Trainable):  # type: ignore[misc]  # Ray has no types here
    """The least that Ray Tune can run."""

    def step(self) -> dict[str, Any]:
        """Nothing."""
        return {"score": 0.5, "done": True}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next."""
        return True

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing."""

    def load_checkpoint(self, checkpoint: object) -> None:
        """Nothing."""


class _Watched(Recorder):
    """Writes down the driver's memory on the way."""

    def __init__(self, store: ResultStore) -> None:
        super().__init__(store)
        self.n_ended, self.driver_mb_at = 0, dict[str, float]()

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        super().ended(spec, state, error)
        self.n_ended += 1
        if self.n_ended % 200 == 0:
            self.driver_mb_at[str(self.n_ended)] = driver_mb()


def ours(specs: list[TrialSpec], cluster: Cluster) -> dict[str, Any]:
    """Seconds, and the driver's memory every 200 trials."""
    with tempfile.TemporaryDirectory() as folder:
        recorder, queue = (
            _Watched(ResultStore(Path(folder) / "store")),
            TrialQueue(Listed(specs), Limits()),
        )
        settings = WorkerSettings("none", folder, None)
        started = time.perf_counter()
        run_sweep(
            queue, recorder, slots=Slots({ANY: Share()}, cluster.nodes), settings=settings, stop=StopRequest(),
            trainable=EmptyTrainable,
        )  # fmt: skip
        recorder.close()
        return {"seconds": time.perf_counter() - started, "driver_mb_at": recorder.driver_mb_at}


def raw_ray(n: int, slots: int) -> float:
    """Seconds for Ray Tune with the settings of our driver."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        tune.Tuner(
            tune.with_resources(RawTrainable, {"cpu": 1}),
            param_space={"i": tune.grid_search(list(range(n)))},
            tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=slots),
            run_config=tune.RunConfig(
                storage_path=folder, verbose=0, checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False)
            ),
        ).fit()
        return time.perf_counter() - started
