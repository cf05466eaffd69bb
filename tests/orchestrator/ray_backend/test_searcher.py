"""Waiting for a trial stops nothing else; old finished trials are removed from Tune; running and pending ones stay."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ray.tune.execution.tune_controller import TuneController

from orchestrator.execution.events import StopRequest
from orchestrator.execution.slots import ANY, Node, Share, Slots
from orchestrator.ray_backend.driver import N_KEPT, PlannedTrials, forget_finished

STATES = ("waiting", "running", "leaving", "stopped", "failed")


def controller(states: list[str]) -> SimpleNamespace:
    """What a `TuneController` holds of trials 0, 1, ... that are in these states."""
    of = {state: {trial for trial, found in enumerate(states) if found == state} for state in STATES}
    return SimpleNamespace(
        _trials=list(range(len(states))),
        _stopped_trials=of["stopped"] | of["leaving"],
        _failed_trials=of["failed"],
        _trial_to_actor=dict.fromkeys(of["running"] | of["leaving"]),
        _trials_to_cache=set(range(len(states))),
    )


def test_what_finished_is_committed_while_tune_waits_for_a_trial_and_does_nothing_else() -> None:
    committed: list[bool] = []
    elsewhere: Any = SimpleNamespace(is_over=False, take=lambda: None)  # another driver has the trials that are left
    slots = Slots({ANY: Share()}, lambda: [Node("cpu", 2, 0)])
    search = PlannedTrials(elsewhere, slots, lambda share: {}, StopRequest(), lambda: committed.append(True))
    waits = SimpleNamespace(next_trial=lambda: search.suggest("any"))
    tune = SimpleNamespace(_search_alg=waits, is_finished=lambda: len(committed) > 1)
    TuneController._update_trial_queue(tune, blocking=True, timeout=3)
    assert tune.is_finished()


@given(st.lists(st.sampled_from(STATES), max_size=6 * N_KEPT).map(lambda some: some * 3))
def test_the_newest_stay_and_all_that_are_not_over(states: list[str]) -> None:
    tune = controller(states)
    forget_finished(tune)
    over = [trial for trial, state in enumerate(states) if state in ("stopped", "failed")]
    n_over = sum(state in ("stopped", "failed", "leaving") for state in states)
    gone = set(over[:-N_KEPT]) if n_over >= 2 * N_KEPT else set()
    assert tune._trials == [trial for trial in range(len(states)) if trial not in gone]
    assert tune._trials_to_cache == set(tune._trials)
    assert not gone & (tune._stopped_trials | tune._failed_trials)


def test_it_rests_until_there_are_twice_as_many_as_it_keeps() -> None:
    tune = controller(["stopped"] * (2 * N_KEPT))
    forget_finished(tune)
    assert tune._trials == list(range(N_KEPT, 2 * N_KEPT))
    before = list(tune._trials)
    forget_finished(tune)
    assert tune._trials == before
