"""Drivers that share a search decide what one decides, and so does one that reads their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.execution.trial_source import Source
from orchestrator.search.depth_search import DepthSearch
from orchestrator.search.optuna_search import AdaptiveCells
from orchestrator.search.schedule import scheduler_of
from orchestrator.search.steering import FixedCells, Steering
from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore
from orchestrator.store.contents import read_table
from orchestrator.store.decisions import Choice, Promoted, Stopped, Suggested
from orchestrator.store.sweep_plans import SweepPlan
from orchestrator.sweeps.search_spec import DepthGoalSpec, GoalSpec, ScheduleSpec, SearchSpec
from orchestrator.sweeps.space import Axis
from tests.orchestrator.execution.sharing_driver import drive
from tests.orchestrator.execution.test_shared_source import committed
from tests.orchestrator.search.replay import RecordedTrials, simulate
from tests.orchestrator.search.test_depth_search import DEPTHS, trials
from tests.orchestrator.search.worlds import RATES, SIX_LAYERS, StopLow, grid_of, resolver, table
from trials.spec import TrialSpec
from trials.state import State

Make = Callable[[ResultStore], Source]
SEEDS = (0, 1)
SPACE = {"freeze.depth": Axis(choice=[*range(7)]), "optim.lr": Axis(choice=list(RATES))}


def choice(store: ResultStore) -> Source:
    return DepthSearch(GoalSpec(choose_depth=DepthGoalSpec(tolerance=1.0)), DEPTHS, StoredTrials(store))


def share(make: Make, table: RecordedTrials, store: ResultStore, n: int) -> list[Source]:
    """The sources of drivers that run trials at the same time."""

    def run() -> Source:
        own = ResultStore(store.storage)
        return drive(own, "", lambda start: make(own), lambda spec: table[spec.trial_id], told=lambda line: None)

    store.create()
    with ThreadPoolExecutor(n) as pool:
        return [future.result() for future in [pool.submit(run) for _ in range(n)]]


def test_two_drivers_conclude_what_one_concludes_and_run_each_trial_once(tmp_path: Path) -> None:
    store, alone = ResultStore(tmp_path / "shared"), choice(ResultStore(tmp_path / "nothing"))
    simulate(alone, trials())
    sources = share(choice, trials(), store, 2)
    assert set(committed(store).values()) == {1}
    later = choice(store)
    assert later.next() is None
    # The rest counts seeds, of which two slots may have run some that one would not have needed.
    chosen = [source.found()[0] for source in (alone, *sources, later)]
    assert chosen == chosen[:1] * 4


@pytest.mark.parametrize(("state", "comes_again"), [(State.PRUNED, True), (State.FAILED, False)])
def test_a_trial_that_another_sweep_paused_is_handed_out_again_and_one_that_failed_is_not(
    tmp_path: Path, state: State, comes_again: bool
) -> None:
    source = choice(ResultStore(tmp_path))
    order = source.next()
    assert order is not None
    assert source.settle(order.spec, state) is not comes_again
    assert (order.spec.trial_id in {following.spec.trial_id for following in iter(source.next, None)}) is comes_again


# --- Decisions that depend on the order of results


def planned(specs: object) -> SweepPlan:
    return SweepPlan("s", 1.0, "s.yaml", ())


def steered(kind: str, store: ResultStore) -> Steering:
    """A search of 49 cells by a schedule, or of 16 of them by TPE."""
    schedule = ScheduleSpec(kind="asha", factor=3) if "asha" in kind else ScheduleSpec()
    scheduler = StopLow() if kind == "stops" else scheduler_of(schedule)
    search = SearchSpec(kind="tpe", cells=16, startup=5)
    cells = (
        AdaptiveCells(search, SPACE, resolver(SEEDS), SIX_LAYERS)
        if "tpe" in kind
        else FixedCells(grid_of(SEEDS[:1] if kind == "stops" else SEEDS))
    )
    log = store.decision_log("s")
    return Steering(cells, scheduler, schedule, StoredTrials(store), log=log, plan_of=planned)


def known(source: Source) -> dict[str, tuple[object, ...]]:
    """What a search knows of each of its cells."""
    assert isinstance(source, Steering)
    return {
        cell.cell_id: (cell.until, cell.ranked, cell.over, cell.waiting, cell.mean_best(), cell.mean("score"))
        for cell in source.cells
    }


def choices(store: ResultStore) -> list[Choice]:
    return [one.choice for one in store.decisions("s")]


# Optuna's warnings are silenced by a means of Python that is not safe for threads, as which drivers run here.
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.timeout(200)
@pytest.mark.parametrize("kind", ["stops", "tpe asha"])
def test_three_drivers_know_at_their_end_what_one_knows_that_reads_their_rows(tmp_path: Path, kind: str) -> None:
    store, found = ResultStore(tmp_path / "shared"), table(SEEDS)
    sources = share(lambda own: steered(kind, own), found, store, 3)
    later = steered(kind, store)
    assert later.next() is None
    assert later.is_over
    assert [known(source) for source in sources] == [known(later)] * 3
    assert [source.found() for source in sources] == [later.found()] * 3
    assert len(later.cells) == (16 if "tpe" in kind else 49)
    rows = read_table(store.storage.at("trials"), "trials").rows.select(["trial_id", "attempt", "state"]).to_pylist()
    assert max(Counter((row["trial_id"], row["attempt"]) for row in rows).values()) == 1
    assert set(committed(store).values()) == {1}
    made = choices(store)
    assert len({str(one) for one in made}) == len(made)
    assert {type(one) for one in made} == ({Stopped} if kind == "stops" else {Suggested, Promoted})
    if kind == "stops":  # no choice depends on the order of results
        alone = ResultStore(tmp_path / "one")
        simulate(steered(kind, alone), found, slots=3)
        assert set(made) == set(choices(alone))


def test_a_driver_promotes_nothing_that_another_one_did(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "store")
    store.create()
    one, other = steered("asha", store), steered("asha", store)
    for source in (one, other):
        for _ in range(6):  # three cells with two seeds each
            order = source.next()
            assert order is not None
            finish(source, order.spec)
    promoted = one.next()
    assert promoted is not None
    assert promoted.until == 3.0
    assert choices(store) == [Promoted(promoted.spec.cell_id, 1.0)]
    following = [other.next(), other.next(), other.next()]
    assert [one is not None and one.until for one in following] == [3.0, 3.0, 1.0]
    assert len(choices(store)) == 1


def finish(source: Source, spec: TrialSpec) -> None:
    """Run a trial to its first evaluation, where it pauses."""
    source.evaluated(spec, table(SEEDS)[spec.trial_id][0])
    source.ended(spec, State.PRUNED)
