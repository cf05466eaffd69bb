"""Trials on a real Ray that is told of a GPU, on which two fit where four were expected; prints how they ended.

python -m tests.end_to_end.packed_sweep STORE

One more raises what CUDA does after an illegal access.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

FIT, EXPECTED, BROKEN = 2, 4, 6  # the last is the seed of the trial that fails
MOST_WAITS = 600  # tenths of a second


def main(folder: Path) -> None:
    """Run them and print what the store and the slots say."""
    from orchestrator.execution.recorder import Recorder
    from orchestrator.ray_engine.cluster import local_cluster
    from orchestrator.store import ResultStore
    from tests.builders import make_record, make_spec
    from tests.loops import loop_of
    from trials.hardware.machine import Gpu
    from trials.spec import TrialSpec

    store, said, running = ResultStore(folder), list[str](), folder.with_name("running")
    ran_out = folder.with_name("ran_out")  # until then trials wait for one too many
    running.mkdir()
    specs = [make_spec(seed=seed) for seed in range(BROKEN + 2)]
    with local_cluster(cpus=EXPECTED, gpus=1) as cluster:
        from orchestrator.ray_engine.slots import Packed, PackedSlots
        from orchestrator.ray_engine.trainable import WorkerSettings
        from orchestrator.ray_engine.tune_engine import tune_engine

        class OnSmallGpu(WorkerSettings):
            def records_here(self, spec: TrialSpec, number: int, accumulation: int, *others: Any) -> Any:
                import torch

                from trials.hardware import device

                device.reserved_peak = lambda: 1 << 30
                yield make_record(last=False)
                if spec.seed == BROKEN:
                    raise RuntimeError(f"CUDA error: an illegal memory access was encountered by {os.getpid()}")
                own = running / spec.trial_id
                own.touch()
                try:
                    for _ in range(MOST_WAITS):
                        time.sleep(0.1)
                        if len(list(running.iterdir())) > FIT:
                            ran_out.touch()
                            raise torch.OutOfMemoryError("CUDA out of memory.")
                        if ran_out.exists():
                            break
                    yield replace(make_record(last=True), device=f"worker {os.getpid()}", accumulation=accumulation)
                finally:
                    own.unlink()

        kind = next(node.kind for node in cluster.nodes())
        packed = {kind: Packed([Gpu("a card", 80 << 30)], EXPECTED)}
        slots = PackedSlots(packed, 1, cluster.nodes, say=said.append)
        before, recorder = slots.described(), Recorder(store)
        with tune_engine(slots, OnSmallGpu("none", str(folder), None)) as engine:
            loop_of(engine, specs, recorder)[0].run()
            recorder.close()
        after = slots.described()
    columns = ["seed", "state", "accumulation", "gpus", "device", "attempt", "error"]
    rows = store.trials().select(columns).to_pylist()
    sys.stdout.write(json.dumps({"before": before, "after": after, "said": said, "rows": rows}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
