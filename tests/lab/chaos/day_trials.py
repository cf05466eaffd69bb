"""The trials of `day`, and the recorder that looks around. Imported when a cluster is up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.config.limits import Limits
from orchestrator.execution import recorder as recorder_module
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
from tests.lab.benchmarks.overhead import specs
from tests.lab.chaos.day import EPOCHS, SAMPLES, Sample, sample
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.state import State


class TinyTrainable(TrialTrainable):
    """Our trainable around a trial that only tells."""

    def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
        """A few evaluations."""
        for epoch in range(1, EPOCHS + 1):
            yield make_record(step=13 * epoch, epoch=float(epoch), last=epoch == EPOCHS)


class _Watching(Recorder):
    """Looks around every so many trials."""

    def __init__(self, store: ResultStore, folder: Path, every: int) -> None:
        super().__init__(store)
        self._folder, self._every, self._n, self._started = folder, every, 0, time.monotonic()
        self.samples: list[Sample] = []

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        super().ended(spec, state, error)
        self._n += 1
        if self._n % self._every == 0:
            self.samples.append(sample(self._n, self._folder, self._started))


def run_day(n: int, cluster: Cluster, folder: Path) -> tuple[list[Sample], dict[str, int]]:
    """Run them all; what was seen on the way, and the states that the store has in the end."""
    store, chosen = ResultStore(folder / "store"), specs(n)
    recorder = _Watching(store, folder, max(1, n // SAMPLES))
    recorder_module.FLUSH_EVERY_S = 0.0  # as if rows were seconds apart
    queue = TrialQueue(Listed(chosen), Limits())
    settings = WorkerSettings("none", str(store.root), None)
    run_sweep(
        queue, recorder, slots=Slots({ANY: Share()}, cluster.nodes), settings=settings, stop=StopRequest(),
        trainable=TinyTrainable,
    )  # fmt: skip
    recorder.close()
    return recorder.samples, dict(Counter(row["state"] for row in store.trials().to_pylist()))
