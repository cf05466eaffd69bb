"""Trials on a real Ray that do something else than train; prints how they ended.

python -m tests.end_to_end.ray_trials KIND STORE
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import Listed
from orchestrator.ray_engine.cluster import local_cluster
from orchestrator.ray_engine.slots import ANY, Share, Slots
from orchestrator.store import ResultStore
from tests.builders import make_record, make_spec
from tests.loops import loop_of
from tests.orchestrator.engines.courses import EXPECTED, Ending, course, ends_in
from trials.cache.set_up_work import EVERY_S, SetUpWork, count_progress
from trials.record import EpochRecord
from trials.spec import TrialSpec

SENTENCES = 12  # of the slow set-up
GIVEN = 1 << 30  # bytes; three of them above what the machine uses now, the monitor kills
Records = Callable[[TrialSpec, int, int], Iterator[EpochRecord]]  # of an attempt with its number and parts of a batch
Found = dict[str, Any]


def run(
    store: ResultStore,
    n: int,
    records: Records,
    *,
    start: Callable[[], None] = lambda: None,
    source: type[Listed] = Listed,
) -> list[str]:
    """Run trials whose workers do `start` once and `records` for each; what the loop said of them."""
    specs = [make_spec(seed=seed) for seed in range(n)]
    with local_cluster() as cluster:
        from orchestrator.ray_engine import tune_engine as on_tune  # Ray reads the cluster's settings on import
        from orchestrator.ray_engine.trainable import TrialTrainable, WorkerSettings

        class Slow(TrialTrainable):
            def setup(self, config: dict[str, Any]) -> None:
                super().setup(config)
                start()

        class Odd(WorkerSettings):
            def records_here(self, spec: TrialSpec, number: int, accumulation: int, *others: Any) -> Any:
                yield from records(spec, number, accumulation)

        vars(on_tune)["TrialTrainable"] = Slow
        settings = Odd("none", str(store.root), None)
        with on_tune.tune_engine(Slots({ANY: Share()}, cluster.nodes), settings) as engine:
            loop, heard = loop_of(engine, source(specs), Recorder(store))
            loop.run()
            loop.recorder.close()
        return heard.lines


def slow_set_up(store: ResultStore) -> Found:
    """One trial whose set-up takes seconds."""

    def records(spec: TrialSpec, number: int, parts: int) -> Iterator[EpochRecord]:
        for _ in count_progress(range(SENTENCES), SetUpWork("encoding x train", SENTENCES, "sentences")):
            time.sleep(EVERY_S / 4)
        yield make_record(last=True)

    heard = run(store, 1, records)
    return {
        "heard": [line.partition(" ")[2] for line in heard if "encoding" in line],
        "states": store.trials()["state"].to_pylist(),
    }


def hungry(store: ResultStore) -> Found:
    """Three trials; the second takes more memory than Ray's monitor allows until its batches are taken in parts."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    used, total = (kib["MemTotal"] - kib["MemAvailable"]) << 10, kib["MemTotal"] << 10
    os.environ |= {
        "RAY_OVERRIDE_RESOURCES": '{"CPU": 2}',
        "RAY_memory_monitor_refresh_ms": "100",
        "RAY_memory_usage_threshold": f"{(used + 3 * GIVEN) / total:.3f}",  # Ray and two workers take one
    }

    def records(spec: TrialSpec, number: int, parts: int) -> Iterator[EpochRecord]:
        eaten = []
        for _ in range(60 if spec.seed == 1 and parts == 1 else 1):
            eaten.append(bytearray(os.urandom(1 << 20)) * 100)
            time.sleep(0.1)
        yield make_record(last=True)

    run(store, 3, records)
    rows = store.trials().select(["seed", "state", "attempt"]).to_pylist()
    return {row["seed"]: [row["state"], row["attempt"]] for row in rows}


def every_end(store: ResultStore) -> Found:
    """A trial for each way to end."""
    run(store, len(EXPECTED), course, source=Ending)
    return {"ends": list(ends_in(store).items())}


def many(store: ResultStore, n: int, seconds: float, megabytes: int, start_s: float) -> Found:
    """Trials on two slots that sleep and keep some memory each; all workers but the first start so much later."""
    os.environ["RAY_OVERRIDE_RESOURCES"] = '{"CPU": 2}'
    first = store.root.with_name("first")

    def start() -> None:
        try:
            first.touch(exist_ok=False)
        except FileExistsError:
            time.sleep(start_s)

    def records(spec: TrialSpec, number: int, parts: int) -> Iterator[EpochRecord]:
        # In a module, as what a class of this file holds travels to the driver with each result, and on to new workers.
        vars(os).setdefault("kept", []).append(b"x" * (megabytes << 20))
        time.sleep(seconds)
        yield replace(make_record(last=True), device=f"worker {os.getpid()}")

    run(store, n, records, start=start)
    rows = store.trials().to_pylist()
    states, workers = (Counter(row[name] for row in rows) for name in ("state", "device"))
    return {"states": states, "workers": workers}


KINDS: dict[str, Callable[[ResultStore], Found]] = {
    "every_end": every_end,
    "slow_set_up": slow_set_up,
    "hungry": hungry,
    "leaky": lambda store: many(store, 12, 0, 300, 0),
    "short": lambda store: many(store, 500, 0.02, 0, 2),
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(KINDS[sys.argv[1]](ResultStore(Path(sys.argv[2])))))
