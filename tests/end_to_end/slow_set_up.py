"""A trial on a real Ray whose set-up takes seconds; prints what its driver heard of it.

python -m tests.end_to_end.slow_set_up STORE
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.config.limits import Limits
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.slots import ANY, Share, Slots
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import TrialQueue
from orchestrator.execution.trial_source import Listed
from orchestrator.ray_backend.cluster import local_cluster
from orchestrator.store import ResultStore
from tests.builders import make_record, make_spec
from trials.cache.set_up_work import EVERY_S, SetUpWork, counted
from trials.record import EpochRecord
from trials.spec import TrialSpec

SENTENCES = 12


class Listening(Recorder):
    """Records what a driver hears of set-ups."""

    def __init__(self, store: ResultStore) -> None:
        super().__init__(store)
        self.heard: list[tuple[str, str]] = []

    def preparing(self, spec: TrialSpec, work: SetUpWork) -> None:
        """Note it."""
        self.heard.append((spec.trial_id, str(work)))


def main(folder: Path) -> None:
    """Run it and print what the driver heard, and how the trial ended."""
    spec, store = make_spec(), ResultStore(folder)
    with local_cluster() as cluster:
        from orchestrator.ray_backend.driver import run_sweep  # Ray reads the cluster's settings when it is imported
        from orchestrator.ray_backend.trainable import TrialTrainable, WorkerSettings

        class Slow(TrialTrainable):
            def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
                for _ in counted(range(SENTENCES), SetUpWork("encoding x train", SENTENCES, "sentences")):
                    time.sleep(EVERY_S / 4)
                yield make_record(last=True)

        recorder, queue = Listening(store), TrialQueue(Listed([spec]), Limits())
        slots, settings = Slots({ANY: Share()}, cluster.nodes), WorkerSettings("none", str(folder), None)
        run_sweep(queue, recorder, slots=slots, settings=settings, stop=StopRequest(), trainable=Slow)
        recorder.close()
    heard = [what for trial_id, what in recorder.heard if trial_id == spec.trial_id]
    sys.stdout.write(json.dumps({"heard": heard, "states": store.trials()["state"].to_pylist()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
