"""Trials of which the first attempt of one takes more memory than Ray's monitor allows; prints how each attempt ended.

python -m tests.end_to_end.hungry_sweep STORE
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GIVEN = 1 << 30  # bytes; three of them above what the machine uses now, the monitor kills


def used_and_total() -> tuple[int, int]:
    """Bytes of the machine's memory."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return (kib["MemTotal"] - kib["MemAvailable"]) << 10, kib["MemTotal"] << 10


def main(folder: Path) -> None:
    """Run three trials, one of them hungry until its batches are taken in parts."""
    used, total = used_and_total()
    os.environ |= {
        "RAY_OVERRIDE_RESOURCES": '{"CPU": 2}',
        "RAY_memory_monitor_refresh_ms": "100",
        "RAY_memory_usage_threshold": f"{(used + 3 * GIVEN) / total:.3f}",  # Ray and two workers take one
    }
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

    store = ResultStore(folder)
    with local_cluster() as cluster:
        from orchestrator.ray_backend.driver import run_sweep
        from orchestrator.ray_backend.trainable import TrialTrainable, WorkerSettings

        class Hungry(TrialTrainable):
            def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
                eaten = []
                for _ in range(60 if spec.seed == 1 and config["accumulation"] == 1 else 1):
                    eaten.append(bytearray(os.urandom(1 << 20)) * 100)
                    time.sleep(0.1)
                yield make_record(last=True)

        recorder = Recorder(store)
        queue = TrialQueue(Listed([make_spec(seed=seed) for seed in range(3)]), Limits())
        settings = WorkerSettings("none", str(folder), None)
        slots = Slots({ANY: Share()}, cluster.nodes)
        run_sweep(queue, recorder, slots=slots, settings=settings, stop=StopRequest(), trainable=Hungry)
        recorder.close()
    rows = store.trials().select(["seed", "state", "attempt"]).to_pylist()
    sys.stdout.write(json.dumps({row["seed"]: [row["state"], row["attempt"]] for row in rows}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
