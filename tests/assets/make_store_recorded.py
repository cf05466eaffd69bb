"""Make `store_recorded`: two trials whose rows record counts and digests of their other rows.

python -m tests.assets.make_store_recorded

The committed files were made once and stay as they are: later versions have to compute the same digests from them.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.execution.recorder import Recorder
from orchestrator.store import ResultStore
from tests.builders import make_record, make_spec
from trials.metrics.label_table import TagScore
from trials.record import SplitReport
from trials.state import State

STORE = Path(__file__).with_name("store_recorded")
TAGS = tuple(TagScore(tag, "token", support=3, predicted=2, correct=1, precision=0.5, recall=1 / 3, f1=0.4)
             for tag in ("NOUN", "VERB"))  # fmt: skip


def make() -> None:
    """Write the store."""
    recorder = Recorder(ResultStore(STORE))
    completed, diverged = (make_spec(seed=seed, data={"sizes": (200, 2, 2)}, optim={"epochs": 1}) for seed in (0, 1))
    recorder.started(completed, 1)
    reports = tuple(SplitReport(split, TAGS, contributions=(1.0, 0.25)) for split in ("dev", "test"))
    recorder.evaluated(completed, make_record(reports=reports))
    recorder.ended(completed, State.COMPLETED, None)
    recorder.started(diverged, 1)
    recorder.evaluated(diverged, make_record(step=7, epoch=0.5, last=False, test_score=None, test_metrics=None))
    recorder.ended(diverged, State.DIVERGED, "the training loss is not finite")
    recorder.close()


if __name__ == "__main__":
    make()
