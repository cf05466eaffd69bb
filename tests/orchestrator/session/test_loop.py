"""The loop of a launch, without Ray, training or a clock: what it has run, and what is in the store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.config.console import stderr
from orchestrator.config.limits import Limits
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import Attempt, End, Listed, TrialQueue
from orchestrator.session.launch_loop import Launch
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import ClusterSpec
from tests.builders import Clock, make_record, make_spec
from tests.loops import Unshared, loop_of
from tests.orchestrator.session.played_engine import Course, PlayedEngine
from trials.record import EpochRecord, State
from trials.spec import TrialSpec

Moves = Iterator[EpochRecord | State]
SPECS = [make_spec(seed=seed) for seed in range(3)]


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    found = ResultStore(tmp_path / "store")
    found.create()
    return found


def two_epochs(attempt: Attempt) -> Moves:
    yield make_record(epoch=1.0, last=False)
    yield make_record(epoch=2.0)


def first(state: State) -> Course:
    """Of the first trial its first attempt ends so; all others complete."""

    def course(attempt: Attempt) -> Moves:
        if attempt.spec.seed == 0 and attempt.number == 1:
            yield state
        yield from two_epochs(attempt)

    return course


def rows(store: ResultStore) -> list[tuple[int, int, str]]:
    """Seed, attempt and state of each trial's newest attempt."""
    return sorted((row["seed"], row["attempt"], row["state"]) for row in store.trials().to_pylist())


def test_all_trials_run_and_each_record_is_heard_between_its_start_and_its_end(store: ResultStore) -> None:
    loop, heard = loop_of(PlayedEngine(two_epochs), SPECS[:2], Recorder(store))
    loop.run()
    loop.recorder.close()
    assert heard.lines == [f"{n} {what}" for n in (0, 1) for what in ("started 1", "epoch 1", "epoch 2", "completed")]
    assert rows(store) == [(0, 1, "completed"), (1, 1, "completed")]


@pytest.mark.parametrize(("state", "again"), [(State.OUT_OF_MEMORY, (0, 2, 2)), (State.UNAVAILABLE, (0, 2, 1))])
def test_an_attempt_that_may_succeed_the_next_time_is_made_again(
    state: State, again: tuple[int, int, int], store: ResultStore
) -> None:
    engine, clock = PlayedEngine(first(state)), Clock()
    trials = TrialQueue(Listed(SPECS[:2]), Limits(), Unshared(), clock)
    loop, _ = loop_of(engine, trials, Recorder(store))
    clock.now = 10.0
    loop.display.retried = lambda *told: setattr(clock, "now", 99.0)  # type: ignore[method-assign]  # time goes by
    loop.run()
    loop.recorder.close()
    assert again in engine.started
    assert rows(store) == [(0, 2, "completed"), (1, 1, "completed")]


@pytest.mark.parametrize("state", [State.FAILED, State.DIVERGED])
def test_one_that_would_end_the_same_way_again_is_not_and_the_others_run(state: State, store: ResultStore) -> None:
    loop, heard = loop_of(PlayedEngine(first(state), slots=2), SPECS, Recorder(store))
    loop.run()
    assert heard.lines.count(f"0 {state.value}") == 1
    assert [line for line in heard.lines if line.endswith("completed")] == ["1 completed", "2 completed"]


def test_a_trial_that_its_source_ends_is_pruned_and_makes_room(store: ResultStore) -> None:
    class Strict(Listed):
        def evaluated(self, spec: TrialSpec, record: EpochRecord) -> bool:
            return spec.seed != 1

    engine = PlayedEngine(two_epochs)
    loop, heard = loop_of(engine, Strict(SPECS), Recorder(store))
    loop.run()
    loop.recorder.close()
    assert rows(store) == [(0, 1, "completed"), (1, 1, "pruned"), (2, 1, "completed")]
    assert ("1 epoch 2" in heard.lines, engine.running) == (False, {})


def test_one_asked_to_stop_starts_nothing_and_ends_what_runs_at_its_next_evaluation(store: ResultStore) -> None:
    engine, stop = PlayedEngine(two_epochs, slots=2), StopRequest()
    loop, heard = loop_of(engine, SPECS, Recorder(store), stop=stop)
    loop.display.started = lambda spec, attempt: setattr(stop, "asker", "me")  # type: ignore[method-assign]
    loop.run()
    loop.recorder.close()
    assert heard.lines == ["0 epoch 1", "1 epoch 1"]
    assert ([seed for seed, *_ in engine.started], engine.running, rows(store)) == ([0, 1], {}, [])


def test_a_limit_that_is_reached_before_the_first_trial_starts_none(store: ResultStore) -> None:
    engine, began = PlayedEngine(two_epochs), time.monotonic() - 3_600.0
    launch = Launch(ClusterSpec(), store, stderr, max_hours=1.0, began=began)
    loop, heard = loop_of(engine, SPECS, Recorder(store), reached_limit=launch.reached_limit)
    loop.run()
    assert (engine.started, loop.stop.bound) == ([], "--max-hours 1 reached")
    assert heard.lines == ["Stopping, to keep to --max-hours 1: running trials continue to their next evaluation."]


def test_a_launch_leaves_time_for_its_slowest_evaluation_and_its_own_end() -> None:
    half_an_hour_ago = time.monotonic() - 1_800.0
    launch = Launch(ClusterSpec(), ResultStore(Path("results")), stderr, max_hours=1.0, began=half_an_hour_ago)
    assert launch.reached_limit() is None
    for seconds in (3_000.0, 20.0):
        launch.reserve.evaluated(seconds)
    assert (launch.reserve.seconds, launch.reached_limit()) == (3_003.0, "--max-hours 1")
    later = replace(launch, max_hours=9.0)  # a question that goes on counts from the same start
    assert (later.reserve.seconds, later.reached_limit()) == (3_003.0, None)


def test_where_nothing_can_run_any_more_the_launch_says_why_and_leaves_its_trial_for_the_next(
    store: ResultStore,
) -> None:
    loop, heard = loop_of(PlayedEngine(first(State.LOST)), SPECS, Recorder(store))
    loop.run()
    assert (loop.stop.reason, heard.lines) == ("no GPU", ["0 started 1", "0 again lost"])


def test_trials_that_all_fail_alike_stop_the_launch(store: ResultStore) -> None:
    def fails(attempt: Attempt) -> Moves:
        yield State.FAILED

    loop, heard = loop_of(PlayedEngine(fails), SPECS, Recorder(store), limits=Limits(alike=2))
    loop.run()
    assert loop.stop.reason == "the first 2 trials all failed alike: it ended"
    assert [line for line in heard.lines if line.startswith("2")] == []


def test_a_trial_that_another_driver_ended_is_told_and_not_run(store: ResultStore) -> None:
    class Shared(TrialQueue):
        def new_ends_elsewhere(self) -> list[End]:
            return [End(SPECS[2], State.COMPLETED, is_here=False)] if not heard.lines else []

    loop, heard = loop_of(PlayedEngine(two_epochs), Shared(Listed(SPECS[:1]), Limits(), Unshared()), Recorder(store))
    loop.run()
    assert heard.lines[0] == "2 elsewhere completed"
