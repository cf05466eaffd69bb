"""A sweep's trials run with made-up scores and failures: whatever comes back, no trial runs twice, and it ends."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.execution.trial_source import Source, Verdict
from tests.builders import make_record
from trials.record import EpochRecord
from trials.spec import TrialSpec, evaluation_steps
from trials.state import State
from trials.tasks import TASKS

MOST_ORDERS = 300  # a sweep of many trials is not played to its end
_STEPS = 12  # an epoch
_FAILURES = (State.DIVERGED, State.FAILED, State.OUT_OF_MEMORY)


@dataclass(eq=False)
class _Run:
    """A trial on a slot."""

    spec: TrialSpec
    records: Iterator[EpochRecord]


def play(source: Source, rng: random.Random) -> None:
    """Run a source to its end on up to four slots.

    Raises:
        AssertionError: it gives a trial that runs or is over, gives none and is not over, or says what cannot be shown.
    """
    running, over, n_orders, slots = list[_Run](), set[str](), 0, rng.randint(1, 4)
    while n_orders < MOST_ORDERS:
        while len(running) < slots and (order := source.next()) is not None:
            n_orders += 1
            assert order.spec.trial_id not in over, "a trial that is over is given again"
            assert all(run.spec.trial_id != order.spec.trial_id for run in running), "a trial that runs is given again"
            running.append(_Run(order.spec, records_of(order.spec)))
        if not running:
            assert source.is_over, "nothing runs, nothing comes, and it is not over"
            break
        run = rng.choice(running)
        state, is_over = _stepped(run, source, rng)
        if state is not None:
            running.remove(run)
            source.ended(run.spec, state)
            over |= {run.spec.trial_id} if is_over else set()
    assert all(map(str.isprintable, source.found()))


def _stepped(run: _Run, source: Source, rng: random.Random) -> tuple[State | None, bool]:
    """How the trial ended at its next evaluation, if it did, and whether it must not come again."""
    if rng.random() < 0.03:
        return rng.choice(_FAILURES), True
    record = next(run.records)
    verdict = source.evaluated(run.spec, record)
    if record.last:
        return State.COMPLETED, True
    return (None if verdict is Verdict.CONTINUE else State.PRUNED), verdict is Verdict.STOP


def records_of(spec: TrialSpec) -> Iterator[EpochRecord]:
    """What a trial reports, the same each time: scores with ties, also below 0, and costs that may be unknown."""
    rng = random.Random(spec.trial_id)
    least, digits, epochs = rng.choice((-1.0, 0.0, 0.5)), rng.choice((0, 1, 9)), spec.optim.epochs
    stops = evaluation_steps(_STEPS * epochs, epochs, spec.eval_every)
    for step in stops:
        score = round(rng.uniform(least, 1.0), digits)
        yield make_record(
            step=step,
            epoch=step / _STEPS,
            score=score,
            metrics=dict.fromkeys(TASKS[spec.task].metrics, score),
            examples_seen=round(step / _STEPS * spec.train_size),
            train_s=rng.random(),
            energy_j=rng.choice((None, rng.random())),
            last=step == stops[-1],
        )
