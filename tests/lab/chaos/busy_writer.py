"""Commits the rows of made-up trials one by one, and compacts every now and then, for half a minute.

python -m tests.lab.chaos.busy_writer STORE
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from orchestrator.execution.recorder import Recorder
from orchestrator.store import ResultStore
from tests.builders import make_record, make_spec
from trials.metrics.label_table import TagScore
from trials.record import EpochRecord, SplitReport
from trials.state import State

SECONDS, EPOCHS, COMPACT_EVERY = 30.0, 3, 7


def main(folder: Path) -> None:
    """Write until the time is up; started again it goes on with other trials."""
    store = ResultStore(folder)
    recorder, n = Recorder(store), len(store.completed_ids())
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        spec = make_spec(seed=n)
        recorder.started(spec, 1)
        for epoch in range(1, EPOCHS + 1):
            recorder.evaluated(spec, _record(epoch))
            recorder.flush()
        recorder.ended(spec, State.COMPLETED, None)
        recorder.flush()
        n += 1
        if n % COMPACT_EVERY == 0:
            store.compact()


def _record(epoch: int) -> EpochRecord:
    scores = [TagScore(tag, "token", support=3, predicted=2, correct=1, precision=0.5, recall=1 / 3, f1=0.4)
              for tag in ("NOUN", "VERB", "X")]  # fmt: skip
    last = epoch == EPOCHS
    reports = (SplitReport("dev", tuple(scores)), SplitReport("test", tuple(scores))) if last else ()
    return make_record(step=13 * epoch, epoch=float(epoch), last=last, reports=reports)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
