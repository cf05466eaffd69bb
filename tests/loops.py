"""The loop of a launch around any engine: without a plan, a store of drivers or a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from orchestrator.config.limits import Limits
from orchestrator.execution.engine import Engine
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import End, Listed, SharedTrials, Source, TrialQueue
from orchestrator.session.launch_loop import TrialLoop
from trials.cache.set_up_work import SetUpWork
from trials.record import EpochRecord
from trials.spec import TrialSpec


class Heard:
    """Stands in for the live display and keeps a line for each call."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def started(self, spec: TrialSpec, attempt: int) -> None:
        self.lines.append(f"{spec.seed} started {attempt}")

    def preparing(self, spec: TrialSpec, work: SetUpWork) -> None:
        self.lines.append(f"{spec.seed} {work}")

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        self.lines.append(f"{spec.seed} epoch {record.epoch:g}")

    def retried(self, end: End) -> None:
        self.lines.append(f"{end.spec.seed} again {end.state.value}")

    def ended(self, end: End) -> None:
        self.lines.append(f"{end.spec.seed} {'' if end.is_here else 'elsewhere '}{end.state.value}")


class Unshared(SharedTrials):
    """The trials of a driver that no other one can meet."""

    poll_s = 0.0

    def __init__(self) -> None:
        self._claimed = Counter[str]()

    def look(self, waiting: Iterable[str]) -> tuple[list[str], list[str]]:
        return [], []

    def claim(self, trial_id: str) -> int | None:
        return self.again(trial_id, 1)

    def again(self, trial_id: str, number: int) -> int:
        self._claimed[trial_id] = max(number, self._claimed[trial_id] + 1)
        return self._claimed[trial_id]

    def ends(self, specs: Iterable[TrialSpec]) -> list[End]:
        return []


def loop_of(
    engine: Engine,
    trials: Source | Iterable[TrialSpec] | TrialQueue,
    recorder: Recorder,
    *,
    stop: StopRequest | None = None,
    limits: Limits | None = None,
    reached_limit: Callable[[], str | None] = lambda: None,
) -> tuple[TrialLoop, Heard]:
    """The loop, not run yet, and what its display will have heard."""
    source = Listed(trials) if isinstance(trials, Iterable) else trials
    queue = source if isinstance(source, TrialQueue) else TrialQueue(source, limits or Limits(), Unshared())
    heard = Heard()
    loop = TrialLoop(engine, queue, stop or StopRequest(), recorder, heard, reached_limit, heard.lines.append)  # type: ignore[arg-type]
    return loop, heard
