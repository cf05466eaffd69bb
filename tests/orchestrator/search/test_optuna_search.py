"""What Optuna is told and what it suggests."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import FrozenTrial

from orchestrator.search.optuna_search import distribution_of, frozen_trial, suggested_point
from orchestrator.search.trial_results import Cell, Evaluation, TrialProgress
from orchestrator.sweeps.search_spec import SearchSpec
from orchestrator.sweeps.space import Axis
from tests.examples import examples
from tests.orchestrator.search.worlds import SIX_LAYERS, grid_of
from trials.record import State

TPE = SearchSpec(kind="tpe", cells=30, startup=4)
SPACE = {"lr": Axis(log_uniform=(1e-5, 1e-1)), "freeze": Axis(choice=["none", "all_encoder"])}
DISTRIBUTIONS = {name: distribution_of(axis) for name, axis in SPACE.items()}
ENDED = {"complete": State.COMPLETED, "pruned": State.PRUNED, "failed": State.FAILED, "diverged": State.DIVERGED}
(SPEC, *_) = grid_of()


def told(lr: float, state: str = "complete", score: float = 0.5) -> FrozenTrial:
    results = {"score": score} if state == "complete" else None
    cell = Cell([SPEC], {SPEC.trial_id: TrialProgress([Evaluation(3.0, 30, score)], results)})
    if state != "running":
        cell.ends[SPEC.trial_id] = ENDED[state]
    return frozen_trial(cell, {"lr": lr, "freeze": 0}, DISTRIBUTIONS, "score")


def test_after_the_start_it_looks_where_cells_were_good() -> None:
    past = [told(10 ** -(e / 10), score=1 - abs(e / 10 - 2)) for e in range(10, 50)]
    found = [suggested_point(TPE, SPACE, SIX_LAYERS, number, past).parameters["lr"] for number in range(20)]
    assert sum(1e-3 < lr < 1e-1 for lr in found) >= 15


@settings(max_examples=examples(40), deadline=None)
@given(states=st.lists(st.sampled_from(["running", *ENDED]), max_size=12))
def test_whatever_became_of_cells_the_next_one_is_suggested_and_depends_on_nothing_else(states: list[str]) -> None:
    past = [told(10 ** -(1 + i / 4), state, i / 12) for i, state in enumerate(states)]
    for i in range(len(past)):
        suggested_point(TPE, SPACE, SIX_LAYERS, i, past[:i])
    first, second = (suggested_point(TPE, SPACE, SIX_LAYERS, 99, past) for _ in range(2))
    assert first == second
