"""Drivers that share a race or a choice of depth decide what one decides, and so does one that reads their rows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from orchestrator.execution.trial_source import Source
from orchestrator.search.depth_search import DepthSearch
from orchestrator.search.race import Race
from orchestrator.search.simulate import RecordedTrials, simulate
from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import DepthGoalSpec, RacingSpec
from tests.benchmarks.choose_depth import normal
from tests.orchestrator.execution.sharing_driver import drive
from tests.orchestrator.execution.test_shared_source import committed
from tests.orchestrator.search.test_depth_search import DEPTHS, trials
from tests.orchestrator.search.test_race import CELLS, drawn, table_of
from tests.orchestrator.search.worlds import nothing_known

Make = Callable[[StoredTrials], Source]


def race(stored: StoredTrials) -> Source:
    return Race(CELLS[:4], RacingSpec(), stored)


def choice(stored: StoredTrials) -> Source:
    return DepthSearch(DepthGoalSpec(tolerance=1.0), DEPTHS, stored)


def scores() -> RecordedTrials:
    found = drawn(np.random.default_rng(0), normal, 100)
    found[1] -= 0.3
    return table_of(found)


def share(make: Make, table: RecordedTrials, store: ResultStore, n: int) -> list[Source]:
    """The sources of drivers that run trials at the same time."""

    def run() -> Source:
        own = ResultStore(store.storage)
        made = make(StoredTrials(own))
        return drive(own, "", lambda start: made, lambda spec: table[spec.trial_id], told=lambda line: None)

    store.create()
    with ThreadPoolExecutor(n) as pool:
        return [future.result() for future in [pool.submit(run) for _ in range(n)]]


@pytest.mark.parametrize(("make", "table"), [(race, scores()), (choice, trials())], ids=["race", "choose_depth"])
def test_two_drivers_conclude_what_one_concludes_and_run_each_trial_once(
    tmp_path: Path, make: Make, table: RecordedTrials
) -> None:
    store, alone = ResultStore(tmp_path / "shared"), make(nothing_known(tmp_path))
    simulate(alone, table)
    sources = share(make, table, store, 2)
    assert set(committed(store).values()) == {1}
    later = make(StoredTrials(store))
    assert later.next() is None
    # The rest of the lines counts seeds, of which two slots may have run some that one would not have needed.
    assert [source.found()[0] for source in (*sources, later)] == [alone.found()[0]] * 3


def test_a_trial_that_failed_with_another_driver_fails_here(tmp_path: Path) -> None:
    source = race(nothing_known(tmp_path))
    order = source.next()
    assert order is not None
    source.settle(order.spec, State.FAILED)
    assert isinstance(source, Race)
    assert source.left == {order.spec.cell_id}
