"""In no order of their steps do two drivers run one trial, or one that is finished."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from orchestrator.claims import Membership, RemovedError, Timing
from orchestrator.execution.trial_queue import SharedTrials
from orchestrator.store.parts import PartFolder
from orchestrator.store.schema import TRIALS
from tests.examples import examples
from tests.orchestrator.claims.schedules import Memory, Program, SteppedStorage, World, every_order, some_orders
from tests.orchestrator.store.rows import trial

STALE_S = 1000.0
MOST_LOOKS = 12
EXHAUSTIVE = pytest.mark.skipif(
    "PERMAFROST_EXHAUSTIVE" not in os.environ, reason="searches for many minutes; make chaos runs it"
)


class KilledError(Exception):
    """The driver ends here, without a further step."""


@dataclass
class Room:
    """Who runs the trial and who has committed it, at a time that only `tick` moves."""

    memory: Memory
    now_s: float = 0.0
    running: dict[str, Membership] = field(default_factory=dict)
    attempts: dict[int, str] = field(default_factory=dict)
    finished: bool = False
    wrong: str = ""

    def timing(self, program: Program) -> Timing:
        """Programs beat only where they check."""

        def now() -> float:
            program.note(self.now_s)
            return self.now_s

        return Timing(STALE_S / 2, STALE_S, STALE_S, now=now, sleep=program.sleep)

    def begin(self, name: str, membership: Membership, attempt: int) -> None:
        """A driver begins to run the trial."""
        if self.finished:
            self.wrong = f"{name} runs a finished trial"
        if self.attempts.setdefault(attempt, name) != name:
            self.wrong = f"{name} and {self.attempts[attempt]} both run attempt {attempt}"
        self.running[name] = membership

    def fault(self) -> str:
        """At no time are two sure; one that is not sure asks the storage before it commits."""
        sure = [name for name, membership in self.running.items() if membership.is_sure]
        return f"{sure} hold at once" if len(sure) > 1 else self.wrong

    def state(self) -> object:
        return self.now_s, tuple(sorted(self.running)), tuple(self.attempts.items())


def driver(room: Room, *, is_killed: bool = False, retries: bool = False, **faults: bool) -> Callable[[Program], None]:
    """Runs the trial, or waits until another driver has ended it or time stands still; or is killed while it runs."""

    def body(program: Program) -> None:
        storage = SteppedStorage(room.memory, program, **faults)
        try:
            with Membership(storage, "s", say=print, timing=room.timing(program)) as membership:
                try:
                    share(program, storage, membership)
                except KilledError:
                    storage.die()
        except RemovedError:
            pass
        finally:
            room.running.pop(program.name, None)

    def share(program: Program, storage: SteppedStorage, membership: Membership) -> None:
        trials, rows = SharedTrials(storage, membership, {}), PartFolder(storage.subfolder("trials"), TRIALS)
        ended, free = trials.look([])
        attempt = trials.claim("t")
        while attempt is None:
            program.sleep(STALE_S)
            ended, free = trials.look(["t"])
            if ended or program.sleeps == MOST_LOOKS:
                return
            attempt = trials.claim("t") if free else None
        room.begin(program.name, membership, attempt)
        program.step(lambda: None)
        if is_killed:
            raise KilledError
        membership.check()
        if retries:
            rows.append([trial("t", attempt, "lost")])
            attempt = trials.again("t", attempt + 1)
            program.step(lambda: None)
            membership.check()
        rows.append([trial("t", attempt)])
        room.finished = True
        del room.running[program.name]
        trials.forget({"t": attempt})

    return body


def clock(room: Room, ticks: int) -> Callable[[Program], None]:
    """Lets time pass in which a silent driver becomes stale."""

    def body(program: Program) -> None:
        for _ in range(ticks):
            program.step(lambda: setattr(room, "now_s", room.now_s + STALE_S))

    return body


def world(*bodies: Callable[[Room], Callable[[Program], None]], ticks: int = 0) -> Callable[[], World]:
    """Programs a, b, ... and perhaps a clock as the last one."""

    def make() -> World:
        room = Room(Memory())
        programs = [Program(name, body(room)) for name, body in zip("abc", bodies, strict=False)]
        if ticks:
            programs.append(Program("tick", clock(room, ticks)))
        return World(room.memory, programs, room.state, room.fault)

    return make


def driver_with(**faults: bool) -> Callable[[Room], Callable[[Program], None]]:
    return lambda room: driver(room, **faults)


DRIVER, PAGED = driver_with(), driver_with(paged=True)
RETRIES, KILLED = driver_with(retries=True), driver_with(is_killed=True)


@pytest.mark.parametrize("other", [DRIVER, PAGED])
def test_drivers_a_killed_one_and_a_clock_in_random_orders_run_no_finished_trial(
    other: Callable[[Room], Callable[[Program], None]],
) -> None:
    runs = examples(200)
    assert some_orders(world(RETRIES, other, KILLED, ticks=4), random.Random(0), runs) > runs / 2


def test_the_search_finds_a_finished_trial_that_runs_where_rows_are_not_read_after_a_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SharedTrials, "_is_news", lambda self, trial_id: False)
    with pytest.raises(AssertionError, match=r"runs a finished trial|both run"):
        every_order(world(DRIVER, DRIVER))


@EXHAUSTIVE
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("make", "first", "least"),
    [
        (world(DRIVER, DRIVER), (), 1001),
        (world(RETRIES, DRIVER), (), 1001),
        (world(KILLED, DRIVER, ticks=2), (0,) * 6, 1001),  # of seven, after which it is killed
        (world(DRIVER, DRIVER, ticks=2), (0,) * 8, 1001),
    ],
    ids=["both run", "one runs a second attempt", "the first is killed", "the first is silent"],
)
def test_in_no_order_do_two_drivers_run_a_trial_or_one_that_is_finished(
    make: Callable[[], World], first: tuple[int, ...], least: int
) -> None:
    assert every_order(make, first=first) >= least
