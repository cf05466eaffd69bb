"""Twelve trials on a real Ray that do nothing but keep 300 MiB each; prints their states and their workers.

python -m tests.end_to_end.leaky_sweep STORE
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from orchestrator.cluster import Share, local_cluster
from orchestrator.recorder import Recorder
from orchestrator.stop import StopRequest
from orchestrator.store import ResultStore
from tests.builders import make_record, make_spec
from trials.record import EpochRecord
from trials.spec import Predictions, TrialSpec


def main(folder: Path) -> None:
    """Run them and print what the store says."""
    specs = [make_spec(seed=seed) for seed in range(12)]
    store = ResultStore(folder)
    with local_cluster() as cluster:
        from orchestrator.driver import run_sweep  # Ray reads the cluster's settings when it is imported
        from orchestrator.trainable import TrialTrainable

        class Leaky(TrialTrainable):
            kept: tuple[bytes, ...] = ()

            def records(self, spec: TrialSpec, predictions: Predictions) -> Iterator[EpochRecord]:
                self.kept = (*self.kept, b"x" * (300 << 20))
                yield replace(make_record(last=True), device=f"worker {os.getpid()}")

        recorder = Recorder(store, {spec.trial_id: 1 for spec in specs})
        run_sweep(
            specs, recorder, cluster=cluster, share=Share(), predictions="none", stop=StopRequest(),
            trainable=Leaky,
        )  # fmt: skip
        recorder.close()
    rows = store.trials().to_pylist()
    sys.stdout.write(
        json.dumps({"states": Counter(r["state"] for r in rows), "workers": Counter(r["device"] for r in rows)})
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
