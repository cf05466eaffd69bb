"""An engine that trains nothing: each attempt does what a course says, a step for each pass over those that run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from orchestrator.execution.engine import Engine, Evaluated, Event, Failed, Free, Idle, Preparing, Started
from orchestrator.execution.trial_queue import Attempt
from trials.record import EpochRecord, State

Course = Callable[[Attempt], Iterator[EpochRecord | State]]  # records, or the state in which the attempt ends


class PlayedEngine(Engine):
    """Runs attempts by a course.

    Attributes:
        started: Each attempt that was started: seed, number, parts of its batches.
        running: Those that neither ended nor were told to.
    """

    def __init__(self, course: Course, slots: int = 1) -> None:
        self._course, self._slots = course, slots
        self.started: list[tuple[int, int, int]] = []
        self.running: dict[str, Iterator[EpochRecord | State]] = {}
        self._attempts: dict[str, Attempt] = {}

    def start(self, attempt: Attempt, slot: str) -> None:
        self.started.append((attempt.spec.seed, attempt.number, attempt.accumulation))
        self.running[attempt.spec.trial_id] = self._course(attempt)
        self._attempts[attempt.spec.trial_id] = attempt

    def reply(self, attempt: Attempt, *, goes_on: bool) -> None:
        if not goes_on:
            del self.running[attempt.spec.trial_id]

    def events(self, preparing: Preparing) -> Generator[Event, None, None]:
        begun = set[tuple[str, int]]()
        while True:
            for _ in range(self._slots - len(self.running)):
                yield Free("")
            for trial_id in list(self.running):
                attempt = self._attempts[trial_id]
                if (trial_id, attempt.number) not in begun:
                    begun.add((trial_id, attempt.number))
                    yield Started(attempt)
                made = next(self.running[trial_id])
                if isinstance(made, State):
                    del self.running[trial_id]
                    yield Failed(attempt, made, "it ended", broken="no GPU" if made is State.LOST else None)
                else:
                    yield Evaluated(attempt, made)
            yield Idle()
