"""The trials of `scale`, and the recorder that looks around. Imported when a cluster is up, and by its workers."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from tests.builders import make_record, make_spec
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.state import State

EPOCHS = 3


class SleepingTrainable(TrialTrainable):
    """Our trainable around a trial that sleeps and tells. Without torch, of which two hundred would not fit."""

    def setup(self, config: dict[str, Any]) -> None:
        """Take the first trial."""
        self.reset_config(config)

    def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
        """An evaluation after each third of the time."""
        seconds = float(os.environ["PERMAFROST_SCALE_SECONDS"])
        for epoch in range(1, EPOCHS + 1):
            time.sleep(seconds / EPOCHS)
            yield make_record(step=13 * epoch, epoch=float(epoch), last=epoch == EPOCHS)

    def _settled(self) -> bool:
        self._drop()
        return True


class Looking(Recorder):
    """Notes when trials start and end, and the driver's memory on the way."""

    def __init__(self, store: ResultStore, every: int) -> None:
        super().__init__(store)
        self._every, self._began = every, time.perf_counter()
        self._started_s, self._ended_s = list[float](), list[float]()
        self.driver_mb_at: dict[str, float] = {}

    def started(self, spec: TrialSpec, attempt: int) -> None:
        super().started(spec, attempt)
        self._started_s.append(time.perf_counter() - self._began)

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        super().ended(spec, state, error)
        self._ended_s.append(time.perf_counter() - self._began)
        if len(self._ended_s) % self._every == 0:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            self.driver_mb_at[str(len(self._ended_s))] = round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1)

    def all_busy_s(self, slots: int) -> float:
        """When every slot had its first trial."""
        return self._started_s[min(slots, len(self._started_s)) - 1]

    def since_busy_s(self, slots: int) -> float:
        """From then to the last trial's end."""
        return self._ended_s[-1] - self.all_busy_s(slots)

    def ideal_since_busy_s(self, slots: int, seconds: float) -> float:
        """What the trials that had not ended by then would take without any overhead."""
        busy_s = self.all_busy_s(slots)
        left = sum(ended > busy_s for ended in self._ended_s)
        return left / slots * seconds


def run(n: int, cluster: Cluster, folder: Path) -> tuple[Looking, dict[str, int], int]:
    """Run them all; what was seen, the states and the epoch rows that the store has in the end."""
    chosen = [make_spec(seed=i % 10, train_size=1 + i // 10, optim={"epochs": EPOCHS}) for i in range(n)]
    store = ResultStore(folder / "store")
    recorder, queue = Looking(store, max(1, n // 20)), TrialQueue(Listed(chosen), Limits())
    settings = WorkerSettings("none", str(store.root), None)
    slots = Slots({ANY: Share()}, cluster.nodes)
    run_sweep(queue, recorder, slots=slots, settings=settings, stop=StopRequest(), trainable=SleepingTrainable)
    recorder.close()
    states = Counter(row["state"] for row in store.trials().select(["state"]).to_pylist())
    return recorder, dict(states), store.epochs().num_rows
