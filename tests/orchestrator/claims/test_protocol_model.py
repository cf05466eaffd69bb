"""The model of the claims keeps its promises in all interleavings, none without one of its rules, and is the code."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.claims import Membership, RemovedError, Timing, join
from orchestrator.claims.roster import this_process
from orchestrator.execution.shared_source import SharedTrials
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store.parts import PartFolder
from orchestrator.store.schema import TRIALS, State
from tests.examples import examples
from tests.orchestrator.claims.protocol_model import ENDS, BrokenPromiseError, Model, Rules, every_state, ticked
from tests.orchestrator.claims.protocol_model import State as ModelState
from tests.orchestrator.store.rows import trial

TICK_S = 500.0
MOST_ACTIONS = 40


def test_in_no_interleaving_of_two_drivers_does_a_promise_break() -> None:
    assert every_state(Model(2, Rules())) > 1000


@pytest.mark.skipif("PERMAFROST_EXHAUSTIVE" not in os.environ, reason="searches for long; make chaos runs it")
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_in_no_interleaving_of_three_drivers_does_a_promise_break() -> None:
    assert every_state(Model(3, Rules())) > 100_000


@pytest.mark.parametrize("rule", Rules._fields)
def test_without_any_of_its_rules_a_promise_breaks(rule: str) -> None:
    with pytest.raises(BrokenPromiseError):
        every_state(Model(2, Rules(**{rule: False})))


class Driver:
    """The code, an action at a time, as the model takes it."""

    def __init__(self, storage: Storage, host: str, timing: Timing) -> None:
        me = replace(this_process("s"), host=host)  # each on a machine of its own, so that only heartbeats tell
        self._join = join(storage, "s", say=lambda line: None, timing=timing, me=me)
        self._storage, self._rows = storage, PartFolder(storage.at("trials"), TRIALS)
        self.at, self.token = "enter", ""
        self._free, self._attempt = True, 0

    def act(self) -> None:
        """Its next action; `at` is then what the model's driver is at."""
        try:
            self.at = getattr(self, f"_{self.at}")()
        except RemovedError:
            self.at = "removed"

    def _enter(self) -> str:
        self._membership: Membership = self._join.__enter__()
        self.token = self._membership.token
        self._trials = SharedTrials(self._storage, self._membership, {})
        return "look"

    def _look(self) -> str:
        ended, free = self._trials.look(["t"])
        if ended:
            return "leave"
        if not free:
            return "look"
        self._attempt = self._trials.claim("t") or 0
        return "claimed"

    def _claimed(self) -> str:
        self._membership.check()
        self._rows.append([trial("t", self._attempt)])
        return "committed"

    def _committed(self) -> str:
        self._trials.forget({"t": self._attempt})
        return "leave"

    def _leave(self) -> str:
        self.close()
        return "over"

    def close(self) -> None:
        """Leave."""
        if self.token:
            self._join.__exit__(None, None, None)
            self.token = ""


@contextmanager
def drivers(folder: Path, n: int) -> Iterator[tuple[list[Driver], list[float]]]:
    """Some drivers of a store, and the time by their clock."""
    now = [0.0]
    timing = Timing(TICK_S, 2 * TICK_S, 2 * TICK_S, now=lambda: now[0], sleep=lambda seconds: None)
    found = [Driver(FolderStorage(folder), f"host{number}", timing) for number in range(n)]
    try:
        yield found, now
    finally:
        for driver in found:
            driver.close()


def acted(model: Model, state: ModelState, who: int) -> ModelState:
    """The state after an action of a driver: all steps to where the code returns, which goes on after a heartbeat."""
    while True:
        before, state = state.drivers[who].at, model.step(state, who)
        at = state.drivers[who].at
        if at in ENDS or (at in STOPS and not before.startswith("shown")):
            return state


STOPS = {"look", "claimed", "committed", "leave"}


@pytest.mark.parametrize("seed", range(examples(600)))
def test_the_code_does_what_the_model_does_in_schedules_of_three_drivers(tmp_path: Path, seed: int) -> None:
    rng, model = random.Random(seed), Model(3, Rules())
    state = model.first()
    with drivers(tmp_path, 3) as (real, now):
        for _ in range(MOST_ACTIONS):
            able = [who for who, driver in enumerate(state.drivers) if driver.at not in ENDS]
            if not able:
                break
            if rng.random() < 0.25:
                state, now[0] = ticked(state), now[0] + TICK_S
                continue
            who = rng.choice(able)
            state = acted(model, state, who)
            real[who].act()
            assert [driver.at for driver in real] == [driver.at for driver in state.drivers]
            assert rows_of(tmp_path) == sorted(number for number, _ in state.rows)
            assert claims_of(tmp_path) == sorted(number for number, _ in state.claims)


def rows_of(folder: Path) -> list[int]:
    rows = PartFolder(FolderStorage(folder).at("trials"), TRIALS).read(columns=["attempt", "state"]).to_pylist()
    return sorted(row["attempt"] for row in rows if row["state"] == State.COMPLETED)


def claims_of(folder: Path) -> list[int]:
    return sorted(int(name.split("-")[1].split(".")[0]) for name in FolderStorage(folder).at("claims").files())
