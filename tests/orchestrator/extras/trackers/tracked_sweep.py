"""A sweep of five trials without training: completed, lost and tried again, diverged, never evaluated, never ended.

Its events go to a recorder and to the trackers of a launch, as a driver sends them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from orchestrator.execution.events import Listeners
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.stop_request import StopRequest
from orchestrator.session.monitors import Watch
from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.sweep import SweepSpec
from orchestrator.sweeps.watch_spec import WatchSpec
from tests.builders import first_attempts, make_record, make_spec
from trials.record import EpochRecord
from trials.state import State

HOSTILE = '../x\'; "y" \x1b[31m <b>&|`# '
LAYERS = {"strategy": "first_k", "layers": (0, 1)}
SPECS = (
    make_spec(seed=0, data={"name": HOSTILE}),
    *(make_spec(seed=seed, data={"name": HOSTILE}, freeze=LAYERS) for seed in (0, 1, 2, 3)),
)
COMPLETE, RETRIED, DIVERGED, BROKEN, STOPPED = SPECS
PLAN = Plan(SweepSpec(name="tiny"), "tiny.yaml", SPECS, SPECS, first_attempts(SPECS))
START = 1_750_000_000.0


def evaluation(epoch: int, *, last: bool = False, score: float = 0.5) -> EpochRecord:
    """One of a trial of 13 steps an epoch."""
    metrics = {"accuracy": score, "macro_f1": score / 2}
    values = {"step": 13 * epoch, "epoch": float(epoch), "score": score, "metrics": metrics, "last": last}
    once = {} if last else {"test_score": None, "test_metrics": None}
    return make_record(**values, **once, time=START + 60 * epoch)


def run_tracked(folder: Path, watch: WatchSpec, say: Callable[[str], None] = print) -> ResultStore:
    """Run it into a store of this folder."""
    results = open_store(folder / "results", must_exist=False)
    results.add_plan(PLAN.declared())
    with Watch(PLAN, results.storage, watch, cluster="inline", stop=StopRequest(), say=say) as monitors:
        recorder = Recorder(results)
        _play(Listeners(recorder, *monitors.listeners))
        recorder.close()
    return results


def _play(listener: Listeners) -> None:
    for spec in SPECS:
        listener.started(spec, 1)
    listener.evaluated(COMPLETE, evaluation(1, score=0.75))
    listener.evaluated(RETRIED, evaluation(1, score=0.25))
    listener.retried(RETRIED, State.LOST, "the worker is gone")
    listener.evaluated(DIVERGED, evaluation(1))
    listener.evaluated(DIVERGED, make_record(step=26, epoch=2.0, dev_loss=math.nan, score=0.0, last=False, time=START))
    listener.ended(DIVERGED, State.DIVERGED, "the loss is nan")
    listener.started(RETRIED, 2)
    listener.evaluated(COMPLETE, evaluation(2, last=True, score=0.875))
    listener.ended(COMPLETE, State.COMPLETED, None)
    for epoch, last in ((1, False), (2, True)):
        listener.evaluated(RETRIED, evaluation(epoch, last=last, score=0.5 + epoch / 8))
    listener.ended(RETRIED, State.COMPLETED, None)
    listener.evaluated(STOPPED, evaluation(1))
    listener.ended(BROKEN, State.FAILED, "no model\nFileNotFoundError: //me:pw@host")
