"""Drivers that share a race or a choice of depth decide what one decides, and so does one that reads their rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_source import Source
from orchestrator.search.depth_search import DepthSearch
from orchestrator.search.race import Race
from orchestrator.search.simulate import RecordedTrials, simulate
from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import DepthGoalSpec, RacingSpec
from tests.benchmarks.choose_depth import normal
from tests.orchestrator.search.test_depth_search import DEPTHS, trials
from tests.orchestrator.search.test_race import CELLS, drawn, table_of
from tests.orchestrator.search.worlds import nothing_known
from trials.spec import TrialSpec

Make = Callable[[StoredTrials], Source]


def race(stored: StoredTrials) -> Source:
    return Race(CELLS[:4], RacingSpec(), stored)


def choice(stored: StoredTrials) -> Source:
    return DepthSearch(DepthGoalSpec(tolerance=1.0), DEPTHS, stored)


def scores() -> RecordedTrials:
    found = drawn(np.random.default_rng(0), normal, 100)
    found[1] -= 0.3
    return table_of(found)


def share(make: Make, table: RecordedTrials, store: ResultStore, n: int) -> tuple[list[Source], list[str]]:
    """The sources of drivers that take trials in turn, and each trial that one of them ran."""
    sources = [make(StoredTrials(store)) for _ in range(n)]
    elsewhere: list[dict[str, TrialSpec]] = [{} for _ in range(n)]
    ran: list[str] = []
    recorder = Recorder(store)
    while not all(source.is_over and not waits for source, waits in zip(sources, elsewhere, strict=True)):
        for source, waits in zip(sources, elsewhere, strict=True):
            for spec in list(waits.values()):
                source.settle(waits.pop(spec.trial_id), State.COMPLETED)
            if (order := source.next()) is None:
                continue
            trial_id = order.spec.trial_id
            if trial_id in ran:
                waits[trial_id] = order.spec
                continue
            ran.append(trial_id)
            recorder.started(order.spec, 1)
            for record in table[trial_id]:
                source.evaluated(order.spec, record)
                recorder.evaluated(order.spec, record)
            source.ended(order.spec, State.COMPLETED)
            recorder.ended(order.spec, State.COMPLETED, None)
            recorder.flush()
    return sources, ran


@pytest.mark.parametrize(("make", "table"), [(race, scores()), (choice, trials())], ids=["race", "choose_depth"])
def test_two_drivers_conclude_what_one_concludes_and_run_each_trial_once(
    tmp_path: Path, make: Make, table: RecordedTrials
) -> None:
    store, alone = ResultStore(tmp_path / "shared"), make(nothing_known(tmp_path))
    simulate(alone, table)
    sources, ran = share(make, table, store, 2)
    assert len(ran) == len(set(ran))
    assert [source.found() for source in sources] == [alone.found()] * 2
    later = make(StoredTrials(store))
    assert later.next() is None
    assert later.found() == alone.found()


def test_a_trial_that_failed_with_another_driver_fails_here(tmp_path: Path) -> None:
    source = race(nothing_known(tmp_path))
    order = source.next()
    assert order is not None
    source.settle(order.spec, State.FAILED)
    assert isinstance(source, Race)
    assert source.left == {order.spec.cell_id}
