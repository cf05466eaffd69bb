"""A driver of trials that only take time, for tests of what drivers share.

python -m tests.orchestrator.execution.sharing_driver STORE HOST SECONDS SEED...
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from orchestrator.claims import Membership, RemovedError, Timing
from orchestrator.claims.membership import this_process
from orchestrator.config.limits import Limits
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import Attempt, End, Listed, SharedTrials, Source, TrialQueue
from orchestrator.store import ResultStore, open_store
from tests.builders import make_record, make_spec
from trials.record import EpochRecord, State
from trials.spec import TrialSpec

QUICK = Timing(beat_s=0.2, stale_s=3.0, poll_s=0.1)
EVALUATIONS = 4


def asleep(seconds: float) -> Callable[[TrialSpec], Iterator[EpochRecord]]:
    """Trials that take so long."""

    def records(spec: TrialSpec) -> Iterator[EpochRecord]:
        for n in range(1, EVALUATIONS + 1):
            time.sleep(seconds / EVALUATIONS)
            yield make_record(step=n, epoch=n / EVALUATIONS, last=n == EVALUATIONS)

    return records


def drive(
    store: ResultStore,
    host: str,
    make: Callable[[float], Source],
    records: Callable[[TrialSpec], Iterable[EpochRecord]],
    *,
    told: Callable[[str], None],
    timing: Timing = QUICK,
    state: State = State.COMPLETED,
) -> Source:
    """Run trials with other drivers until all have ended, each in this state; the source, which knows all of them.

    Args:
        store: Where they are shared.
        host: The name of the machine that it says it is on; of another machine's process only heartbeats can be seen.
        make: The source of the trials, from the share of a list that comes last.
        records: What a trial yields.
        told: Receives `began SEED ATTEMPT` and `ended SEED` for each trial here, `settled SEED` for each elsewhere.
        timing: That of all drivers.
        state: How each trial ends.
    """
    me = this_process("shared")
    me = me.model_copy(update={"host": host or me.host})
    with Membership(store.storage, "shared", say=print, timing=timing, me=me) as membership:
        start = int(membership.token, 16) / 16**16 if membership.others() else 0.0
        numbers = {trial_id: n + 1 for trial_id, n in store.attempts().items()}
        source, shared = make(start), SharedTrials(store.storage, membership, numbers)
        queue = TrialQueue(source, Limits(alike=1000), shared)
        recorder = Recorder(store, before_commit=membership.check, over=shared.forget, may_compact=membership.is_first)
        while not queue.is_over:
            attempt = queue.take()
            for end in queue.new_ends_elsewhere():
                told(f"settled {end.spec.seed}")
            if attempt is None:
                recorder.tick()
                time.sleep(0.02)
                continue
            spec = attempt.spec
            told(f"began {spec.seed} {attempt.number}")
            recorder.started(spec, attempt.number)
            run(attempt, records(spec), queue, recorder, state)
            told(f"ended {spec.seed}")
        recorder.close()
    return source


def run(attempt: Attempt, records: Iterable[EpochRecord], queue: TrialQueue, recorder: Recorder, state: State) -> None:
    """Run an attempt to its state, or until its source stops it."""
    spec = attempt.spec
    for record in records:
        end = queue.evaluated(spec, record)
        recorder.evaluated(spec, record)
        if end is not None and not record.last:
            state = end.state
            break
    report = recorder.ended if queue.ended(End(spec, state)) is None else recorder.retried
    report(End(spec, state))


def main() -> None:
    folder, host, seconds, *seeds = sys.argv[1:]

    def told(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    try:
        specs = [make_spec(seed=int(seed)) for seed in seeds]
        store = open_store(Path(folder))
        drive(store, host, lambda start: Listed(specs, start=start), asleep(float(seconds)), told=told)
    except RemovedError:
        told("removed")


if __name__ == "__main__":
    main()
