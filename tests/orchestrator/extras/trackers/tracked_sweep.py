"""A sweep of five trials without training: completed, lost and tried again, diverged, never evaluated, never ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dashboards.cli import app
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import End
from orchestrator.extras.trackers import export_command
from orchestrator.storage.storage import Storage
from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.sweep import SweepSpec
from tests.builders import first_attempts, make_record, make_spec
from trials.record import EpochRecord, State

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


def play(folder: Path) -> Iterator[ResultStore]:
    """Write its rows into a store of this folder, in two parts with a pause between them, as a driver would."""
    results = open_store(folder / "results", must_exist=False)
    results.add_plan(PLAN.stored_plan())
    recorder = Recorder(results)
    for spec in SPECS:
        recorder.started(spec, 1)
    recorder.evaluated(COMPLETE, evaluation(1, score=0.75))
    recorder.evaluated(RETRIED, evaluation(1, score=0.25))
    recorder.retried(End(RETRIED, State.LOST, "the worker is gone"))
    recorder.evaluated(DIVERGED, evaluation(1))
    recorder.flush()
    yield results
    recorder.evaluated(DIVERGED, make_record(step=26, epoch=2.0, dev_loss=math.nan, score=0.0, last=False, time=START))
    recorder.ended(End(DIVERGED, State.DIVERGED, "the loss is nan"))
    recorder.started(RETRIED, 2)
    recorder.evaluated(COMPLETE, evaluation(2, last=True, score=0.875))
    recorder.ended(End(COMPLETE, State.COMPLETED))
    for epoch, last in ((1, False), (2, True)):
        recorder.evaluated(RETRIED, evaluation(epoch, last=last, score=0.5 + epoch / 8))
    recorder.ended(End(RETRIED, State.COMPLETED))
    recorder.evaluated(STOPPED, evaluation(1))
    recorder.ended(End(BROKEN, State.FAILED, "no model\nFileNotFoundError: //me:pw@host"))
    recorder.close()
    yield results


def exported(folder: Path, *options: str) -> Result:
    """`permafrost export runs` of its store."""
    return CliRunner().invoke(app, ["export", "runs", *options, "--store", str(folder / "results")])


@contextmanager
def driven(folder: Path, ends: Callable[[], None] | None = None) -> Iterator[None]:
    """A driver that a reader sees twice, with the first part and then with all; or `ends` is called instead."""
    parts, looks = play(folder), iter(range(2))

    def drivers(store: Storage, sweep: str) -> bool:
        look = next(looks, None)
        if look == 1:
            (ends or parts.__next__)()
        return look is not None

    next(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_command, "_POLL_S", 0.0)
        patch.setattr(export_command, "running_drivers", drivers)
        yield
