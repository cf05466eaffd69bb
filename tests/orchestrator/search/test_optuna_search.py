"""What Optuna is told and what it suggests."""

from __future__ import annotations

import optuna
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import FrozenTrial, TrialState

from orchestrator.search.optuna_search import directions, distribution_of, frozen_trial, suggested_point
from orchestrator.search.trial_results import Cell, Evaluation, TrialProgress
from orchestrator.sweeps.search_spec import SearchSpec
from orchestrator.sweeps.space import Axis
from tests.examples import examples
from tests.orchestrator.search.worlds import SIX_LAYERS, grid_of
from trials.state import State

TPE = SearchSpec(kind="tpe", cells=30, startup=4)
BOTH = SearchSpec(kind="pareto", cells=30, objectives=("score", "train_s"))
SPACE = {"lr": Axis(log_uniform=(1e-5, 1e-1)), "freeze": Axis(choice=["none", "all_encoder"])}
DISTRIBUTIONS = {name: distribution_of(axis) for name, axis in SPACE.items()}
OBJECTIVES = {1: TPE.objectives, 2: BOTH.objectives}
STATES = ["running", "complete", "pruned", "failed"]
(SPEC, *_) = grid_of()


def told(lr: float, state: str = "complete", score: float = 0.5, *, n: int = 1) -> FrozenTrial:
    results = {"score": score, "train_s": 2.0} if state == "complete" else None
    cell = Cell([SPEC], {SPEC.trial_id: TrialProgress([Evaluation(3.0, 30, score)], results)})
    if state == "pruned":
        cell.waiting.add(SPEC.trial_id)
    elif state != "running":
        cell.over[SPEC.trial_id] = State.COMPLETED if state == "complete" else State.FAILED
    return frozen_trial(cell, {"lr": lr, "freeze": 0}, DISTRIBUTIONS, OBJECTIVES[n])


def test_after_the_start_it_looks_where_cells_were_good() -> None:
    past = [told(10 ** -(e / 10), score=1 - abs(e / 10 - 2)) for e in range(10, 50)]
    found = [suggested_point(TPE, SPACE, SIX_LAYERS, number, past).parameters["lr"] for number in range(20)]
    assert sum(1e-3 < lr < 1e-1 for lr in found) >= 15


@settings(max_examples=examples(40), deadline=None)
@given(states=st.lists(st.sampled_from(STATES), max_size=12), n=st.sampled_from([1, 2]))
def test_whatever_became_of_cells_the_next_one_is_suggested_and_depends_on_nothing_else(
    states: list[str], n: int
) -> None:
    search = TPE if n == 1 else BOTH
    past = [told(10 ** -(1 + i / 4), state, i / 12, n=n) for i, state in enumerate(states)]
    for i in range(len(past)):
        suggested_point(search, SPACE, SIX_LAYERS, i, past[:i])
    first, second = (suggested_point(search, SPACE, SIX_LAYERS, 99, past) for _ in range(2))
    assert first == second


def test_a_stopped_cell_is_pruned_and_what_optuna_is_told_of_values_and_directions() -> None:
    trial = told(1e-3, "pruned", 0.7)
    assert (trial.state, trial.intermediate_values) == (TrialState.PRUNED, {3: 0.7})
    assert isinstance(distribution_of(Axis(choice=[1e-4, 1e-3])), optuna.distributions.IntDistribution)
    for choices in ([1e-3, 1e-4], ["a", "b"], [1, "b"], [False, True], [1]):
        assert isinstance(distribution_of(Axis(choice=choices)), optuna.distributions.CategoricalDistribution)
    assert [direction.name for direction in directions(BOTH)] == ["MAXIMIZE", "MINIMIZE"]
