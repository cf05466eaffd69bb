"""Trials on a real Ray of two slots that sleep, and keep some memory each; prints their states, workers and a count.

python -m tests.end_to_end.leaky_sweep STORE TRIALS SECONDS MEGABYTES START_S

All workers but the first that is up take START_S seconds more to start. The count is of the most trials that Tune knew
at the end of one.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
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
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.state import State


class Counting(Recorder):
    """Looks for Tune's trials in the memory of this process, its driver."""

    most = 0

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Count every tenth time."""
        super().ended(spec, state, error)
        if spec.seed % 10 == 0:
            from ray.tune.experiment import Trial

            self.most = max(self.most, sum(isinstance(found, Trial) for found in gc.get_objects()))


def main(folder: Path, n: int, seconds: float, megabytes: int, start_s: float) -> None:
    """Run them and print what the store says."""
    os.environ["RAY_OVERRIDE_RESOURCES"] = '{"CPU": 2}'
    specs = [make_spec(seed=seed) for seed in range(n)]
    store = ResultStore(folder)
    with local_cluster() as cluster:
        from orchestrator.ray_backend.driver import run_sweep  # Ray reads the cluster's settings when it is imported
        from orchestrator.ray_backend.trainable import TrialTrainable, WorkerSettings

        class Leaky(TrialTrainable):
            kept: tuple[bytes, ...] = ()

            def setup(self, config: dict[str, Any]) -> None:
                super().setup(config)
                try:
                    folder.with_name("first").touch(exist_ok=False)
                except FileExistsError:
                    time.sleep(start_s)

            def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
                self.kept = (*self.kept, b"x" * (megabytes << 20))
                time.sleep(seconds)
                yield replace(make_record(last=True), device=f"worker {os.getpid()}")

        recorder, queue = Counting(store), TrialQueue(Listed(specs), Limits())
        settings = WorkerSettings("none", str(folder), None)
        slots = Slots({ANY: Share()}, cluster.nodes)
        run_sweep(queue, recorder, slots=slots, settings=settings, stop=StopRequest(), trainable=Leaky)
        recorder.close()
    rows = store.trials().to_pylist()
    states, workers = (Counter(row[name] for row in rows) for name in ("state", "device"))
    sys.stdout.write(json.dumps({"states": states, "workers": workers, "most_trials_of_tune": recorder.most}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
