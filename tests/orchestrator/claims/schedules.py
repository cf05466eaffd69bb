"""Every order in which the steps of a few programs can follow each other, each order run once.

A program runs in a thread of its own and stops before each step; a search lets one of them take its next step at a
time. Orders that lead to the same place, with each program having seen the same, are followed up only once.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from orchestrator.storage.storage import FolderStorage

T = TypeVar("T")
State = tuple[object, ...]
MOST_SLEEPS = 1  # of one program; beyond, an order is no longer varied: programs may collide for ever


@dataclass
class Memory:
    """The objects of a place.

    Attributes:
        content: By name.
        wrote: Each name with the program that wrote it and which of its objects it is; names themselves are random.
    """

    content: dict[str, bytes] = field(default_factory=dict)
    wrote: dict[str, tuple[str, int]] = field(default_factory=dict)

    def state(self) -> object:
        """What is there, without random names."""
        return tuple(sorted(self.wrote[name] for name in self.content))


class Program:
    """A program that is let go step by step.

    Attributes:
        name: Its own.
        seen: What its steps have answered.
        sleeps: How often it has waited.
        done: Whether it has ended.
        error: What ended it, if anything but its end.
    """

    def __init__(self, name: str, body: Callable[[Program], None]) -> None:
        self.name, self._body = name, body
        self.seen: list[object] = []
        self.sleeps, self.done = 0, False
        self.error: BaseException | None = None
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()
        self._stopped.acquire()

    def take_step(self) -> None:
        """Let it go to the point before its next step, or to its end."""
        self._go.release()
        self._stopped.acquire()

    def step(self, action: Callable[[], T], told: Callable[[T], object] = lambda _: None) -> T:
        """Called by the program: wait until let go, then act."""
        self._stopped.release()
        self._go.acquire()
        try:
            result = action()
        except Exception as error:
            self.seen.append(type(error))
            raise
        self.seen.append(told(result))
        return result

    def note(self, answer: object) -> None:
        """Something it was told outside of a step; not where the search asks."""
        if threading.current_thread() is self._thread:
            self.seen.append(answer)

    def sleep(self, seconds: float) -> None:
        """A step that does nothing."""
        if seconds:
            self.sleeps += 1
            self.step(lambda: None)

    def _run(self) -> None:
        try:
            self._body(self)
        except BaseException as error:
            self.error = error
        self.done = True
        self._stopped.release()


class SteppedStorage(FolderStorage):
    """A place in memory, each of whose operations is a step of one program.

    Attributes:
        dead: Whether the program was killed: nothing that it does has an effect.
    """

    def __init__(self, memory: Memory, program: Program, *, paged: bool = False) -> None:
        self._memory, self._program, self._paged = memory, program, paged
        self._inside = ""
        self._parts: list[SteppedStorage] = []
        self.address, self.dead = "memory", False

    def __str__(self) -> str:
        return f"memory/{self._inside}"

    def subfolder(self, name: str) -> SteppedStorage:
        part = SteppedStorage(self._memory, self._program, paged=self._paged)
        part._inside = f"{self._inside}{name}/"
        self._parts.append(part)
        return part

    def die(self) -> None:
        """Kill the program."""
        self.dead = True
        for part in self._parts:
            part.die()

    def files(self, *between: str) -> dict[str, int]:
        if self.dead:
            return {}
        names = self._pages() if self._paged else self._program.step(self._names, self._told)
        return dict.fromkeys((name.removeprefix(self._inside) for name in names), 1)

    def _pages(self) -> list[str]:
        """As object stores do it: each page shows the next name that is there when it is made."""
        found: list[str] = []
        while page := self._program.step(partial(self._page, tuple(found)), self._told):
            found += page
        return found

    def _page(self, found: Sequence[str]) -> list[str]:
        wrote = self._memory.wrote
        return [name for name in self._names() if not found or wrote[name] > wrote[found[-1]]][:1]

    def _names(self) -> list[str]:
        inside = [name for name in self._memory.content if name.startswith(self._inside)]
        return sorted(inside, key=self._memory.wrote.__getitem__)

    def _told(self, names: Sequence[str]) -> object:
        return tuple(self._memory.wrote[name] for name in names)

    def read(self, name: str) -> bytes:
        def found() -> bytes:
            if path not in self._memory.content:
                raise FileNotFoundError(name)
            return self._memory.content[path]

        path = self._inside + name
        return self._program.step(found)

    def open(self, name: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(name))

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        if not self.dead:
            self._program.step(lambda: self._put(self._inside + name, bytes(content)))

    def create(self, name: str, content: bytes) -> bool:
        def put() -> bool:
            if path not in self._memory.content:
                self._put(path, content)
            return self._memory.content[path] == content

        path = self._inside + name
        return self._program.step(put, bool)

    def _put(self, path: str, content: bytes) -> None:
        mine = sum(who == self._program.name for who, _ in self._memory.wrote.values())
        self._memory.wrote[path] = (self._program.name, mine)
        self._memory.content[path] = content

    def delete(self, name: str) -> None:
        if not self.dead:
            self._program.step(lambda: self._memory.content.pop(self._inside + name, None) and None)


@dataclass
class World:
    """One run.

    Attributes:
        memory: The place.
        programs: All of them.
        state: What else decides how it goes on.
        fault: What is wrong after a step, or nothing.
    """

    memory: Memory
    programs: list[Program]
    state: Callable[[], Any]
    fault: Callable[[], str]


def every_order(make: Callable[[], World], *, first: tuple[int, ...] = ()) -> int:
    """Run the programs in every order, and return how many states were met.

    Args:
        make: A new run.
        first: Whose steps come first, by number; the rest is varied.

    Raises:
        AssertionError: `World.fault` tells one after some step, or a program ends with an error.
    """
    orders = [first]
    met: set[State] = set()
    while orders:
        orders += _run(make(), orders.pop(), met)
    return len(met)


def some_orders(make: Callable[[], World], rng: random.Random, runs: int) -> int:
    """Run the programs in random orders, and return how many of these differ. Raises as `every_order` does."""
    return len({_random_order(make(), rng) for _ in range(runs)})


def _random_order(world: World, rng: random.Random) -> tuple[int, ...]:
    taken: list[int] = []

    def choose(_world: World, able: list[int]) -> int:
        taken.append(rng.choice(able))
        return taken[-1]

    _follow(world, choose)
    return tuple(taken)


def _run(world: World, order: tuple[int, ...], met: set[State]) -> list[tuple[int, ...]]:
    """Follow an order and go on from there; the orders that branch off on the way."""
    branches: list[tuple[int, ...]] = []
    taken: list[int] = []
    varied = True

    def choose(world: World, able: list[int]) -> int:
        nonlocal varied
        chosen = min(able, key=lambda i: world.programs[i].sleeps)
        if len(taken) < len(order):
            chosen = order[len(taken)]
        elif varied:
            state = _state(world)
            varied = state not in met and all(program.sleeps <= MOST_SLEEPS for program in world.programs)
            met.add(state)
            if varied:
                branches.extend((*taken, other) for other in able if other != chosen)
        taken.append(chosen)
        return chosen

    _follow(world, choose)
    return branches


def _follow(world: World, choose: Callable[[World, list[int]], int]) -> None:
    """Let the chosen program take a step until all have ended; they end also where a check fails."""
    taken: list[str] = []
    failed = ""
    for program in world.programs:
        program.start()
    while able := [i for i, program in enumerate(world.programs) if not program.done]:
        program = world.programs[choose(world, able)]
        program.take_step()
        taken.append(program.name)
        wrong = world.fault()
        failed = failed or (wrong and f"{wrong} in the order {' '.join(taken)}")
    for program in world.programs:
        if program.error is not None and not failed:
            raise AssertionError(f"{program.name}: {program.error!r} in the order {' '.join(taken)}") from program.error
    assert not failed, failed


def _state(world: World) -> State:
    return (world.memory.state(), world.state(), *((tuple(p.seen), p.done) for p in world.programs))
