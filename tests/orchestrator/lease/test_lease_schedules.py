"""In no order of their steps do two drivers hold one lease."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from orchestrator.lease import Lease, LeaseHeldError, LeaseLostError, Timing, take_lease
from orchestrator.lease.holder import Holder, this_driver
from tests.examples import examples
from tests.orchestrator.lease.lease_schedules import Memory, Program, SteppedStorage, World, every_order, some_orders

STALE_S = 1000.0
HERE = replace(this_driver(), host="here")
ELSEWHERE = replace(HERE, host="elsewhere")


@dataclass
class Room:
    """Who holds the lease, and who is sure to, at a time that only `tick` moves."""

    now_s: float = 0.0
    inside: dict[str, Lease] = field(default_factory=dict)

    def timing(self, program: Program) -> Timing:
        """Programs beat only where they check."""

        def now() -> float:
            program.note(self.now_s)
            return self.now_s

        return Timing(STALE_S / 2, STALE_S, STALE_S, now=now, sleep=program.sleep)

    def fault(self) -> str:
        """At no time are two sure to hold; one that is not sure asks the storage before it commits."""
        sure = [name for name, lease in self.inside.items() if lease.is_sure]
        return f"{sure} hold at once" if len(sure) > 1 else ""


def driver(room: Room, memory: Memory, me: Holder, checks: int, **faults: bool) -> Callable[[Program], None]:
    """Takes the lease, commits a few times and gives it back, or is refused."""

    def body(program: Program) -> None:
        try:
            with take_lease(
                SteppedStorage(memory, program, **faults), "s", say=print, timing=room.timing(program), me=me
            ) as lease:
                room.inside[program.name] = lease
                for _ in range(checks):
                    program.step(lambda: None)
                    lease.check()
                program.step(lambda: None)
                del room.inside[program.name]
        except LeaseHeldError:
            pass
        except LeaseLostError:
            del room.inside[program.name]

    return body


def clock(room: Room, ticks: int) -> Callable[[Program], None]:
    """Lets time pass in which a silent claim becomes stale."""

    def body(program: Program) -> None:
        for _ in range(ticks):
            program.step(lambda: setattr(room, "now_s", room.now_s + STALE_S))

    return body


def world(*holders: Holder, ticks: int = 0, checks: int = 1, **faults: bool) -> Callable[[], World]:
    """Drivers a, b, ... and perhaps a clock as the last program."""

    def make() -> World:
        room, memory = Room(), Memory()
        bodies = [driver(room, memory, holder, checks, **faults) for holder in holders]
        programs = [Program(name, body) for name, body in zip("abc", bodies, strict=False)]
        if ticks:
            programs.append(Program("tick", clock(room, ticks)))
        return World(memory, programs, lambda: (room.now_s, tuple(sorted(room.inside))), room.fault)

    return make


ASKS, HOLDS = (0,) * 2, (0,) * 6  # how far the first driver is after so many steps


@pytest.mark.slow
def test_two_that_ask_at_once_never_both_hold() -> None:
    assert every_order(world(HERE, HERE, checks=0)) > 1000


def test_the_search_finds_two_holders_where_a_listing_may_be_old() -> None:
    with pytest.raises(AssertionError, match="hold at once"):
        every_order(world(HERE, HERE, late=True))


@pytest.mark.slow
def test_a_holder_that_was_silent_and_one_that_takes_over_are_never_both_sure() -> None:
    assert every_order(world(HERE, ELSEWHERE, ticks=1), first=HOLDS) > 1000


@pytest.mark.parametrize("paged", [False, True])
def test_three_that_ask_and_a_clock_in_random_orders(paged: bool) -> None:
    some_orders(world(HERE, ELSEWHERE, ELSEWHERE, ticks=3, paged=paged), random.Random(0), runs=examples(200))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("first", "ticks"), [(HOLDS, 2), (ASKS, 1), ((), 1)])
def test_in_no_order_do_two_hold_whoever_falls_silent(first: tuple[int, ...], ticks: int) -> None:
    assert every_order(world(HERE, ELSEWHERE, ticks=ticks), first=first) > 10_000


@pytest.mark.slow
def test_three_that_ask_and_a_clock_in_many_random_orders() -> None:
    some_orders(world(HERE, ELSEWHERE, ELSEWHERE, ticks=4, checks=2, paged=True), random.Random(1), runs=5_000)
