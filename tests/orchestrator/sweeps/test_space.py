"""Every point of every space is inside it, and a point can be found again by its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.search.optuna_search import suggested_point
from orchestrator.sweeps.search_points import points_of
from orchestrator.sweeps.search_spec import SearchSpec
from orchestrator.sweeps.space import (
    Axis,
    PlacedError,
    Point,
    Space,
    axis_in,
    grid,
    rebuild,
)
from tests.builders import expanded, write_sweep, write_texts, write_treebank
from tests.examples import each, examples
from tests.orchestrator.search.worlds import SIX_LAYERS
from trials.errors import ConfigError

FREEZE = Axis(choice=["none", {"strategy": "first_k", "depth": {"int_uniform": [1, "layers"]}}])
LORA = Axis(choice=[None, {"rank": {"choice": [4, 8, 16]}, "alpha": {"log_uniform": [1.0, 64.0]}}])

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)
PAIRS = st.tuples(NUMBERS, st.floats(1e-3, 1e6)).map(lambda pair: (pair[0], pair[0] + pair[1]))
PLAIN = st.one_of(st.none(), st.integers(-9, 9), st.text("abc", max_size=3))


def axes(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.fixed_dictionaries({"choice": st.lists(inside, min_size=1, max_size=4)}),
        st.fixed_dictionaries({"uniform": PAIRS.map(list)}),
        st.fixed_dictionaries({"log_uniform": st.tuples(st.floats(1e-6, 1), st.floats(1.5, 1e3)).map(list)}),
        st.fixed_dictionaries({"int_uniform": st.tuples(st.integers(-5, 0), st.integers(1, 9)).map(list)}),
        st.fixed_dictionaries({"int_uniform": st.tuples(st.integers(-5, 6), st.just("layers")).map(list)}),
    )


VALUES = st.recursive(PLAIN, lambda inside: st.one_of(axes(inside), st.dictionaries(st.sampled_from("pqr"), inside, max_size=2)), max_leaves=6)  # fmt: skip  # noqa: E501
SPACES = st.dictionaries(st.sampled_from(["a", "b.c", "d"]), axes(VALUES).map(Axis.model_validate), max_size=3)
KINDS = st.sampled_from(["random", "sobol", "tpe"])


def is_inside(value: Any, axis: Axis) -> bool:
    if axis.choice is not None:
        return any(matches(value, choice) for choice in axis.choice)
    if axis.int_uniform:
        low, high = axis.with_layers(6).whole_bounds
        return isinstance(value, int) and low <= value <= high
    low_, high_ = axis.uniform or axis.log_uniform or (0.0, 0.0)
    return isinstance(value, float) and low_ <= value <= high_


def matches(value: Any, declared: Any) -> bool:
    inner = axis_in(declared)
    if inner is not None:
        return is_inside(value, inner)
    if isinstance(declared, Mapping):
        return (
            isinstance(value, dict)
            and value.keys() == declared.keys()
            and all(matches(value[key], one) for key, one in declared.items())
        )
    return bool(value == declared)


def drawn(kind: str, space: Space, n: int, seed: int) -> list[Point]:
    search = SearchSpec.model_validate({"kind": kind, "cells": n, "seed": seed, "startup": 1})
    if kind != "tpe":
        return list(points_of(search, space, SIX_LAYERS))
    return [suggested_point(search, space, SIX_LAYERS, number, []) for number in range(n)]


@settings(max_examples=examples(150), deadline=None)
@given(kind=KINDS, space=SPACES, seed=st.integers(0, 2**32 - 1))
def test_every_suggestion_is_inside_its_space_and_the_same_under_the_same_seed(
    kind: str, space: Space, seed: int
) -> None:
    found = drawn(kind, space, 3, seed)
    for point in found:
        assert point.settings.keys() == space.keys()
        assert all(is_inside(point.settings[key][1], axis) for key, axis in space.items())
    assert [point.parameters for point in drawn(kind, space, 3, seed)] == [point.parameters for point in found]


@settings(max_examples=examples(100), deadline=None)
@given(space=SPACES, seed=st.integers(0, 2**32 - 1))
def test_a_point_is_found_again_by_its_parameters(space: Space, seed: int) -> None:
    for point in drawn("random", space, 2, seed):
        found = rebuild(space, point.parameters, SIX_LAYERS, lambda name, axis: None)
        assert found is not None
        assert found.settings == point.settings


def test_a_point_is_not_found_in_a_space_that_has_lost_it() -> None:
    space = {"lr": Axis(uniform=(0.0, 1.0))}
    (point,) = drawn("random", space, 1, 0)
    assert rebuild({"lr": Axis(uniform=(2.0, 3.0))}, point.parameters, SIX_LAYERS, lambda name, axis: None) is None
    assert rebuild({"rate": space["lr"]}, point.parameters, SIX_LAYERS, lambda name, axis: None) is None
    assert rebuild({}, point.parameters, SIX_LAYERS, lambda name, axis: None) is None
    found = [point.parameters for point in grid({"freeze": FREEZE}, lambda point: 2)]
    assert found == [{"freeze": 0}, {"freeze": 1, "freeze.1.depth@2": 1}, {"freeze": 1, "freeze.1.depth@2": 2}]


def test_a_bound_beyond_a_models_layers_is_told_with_its_place() -> None:
    space = {"freeze": Axis(choice=["none", {"strategy": "first_k", "depth": {"int_uniform": [4, "layers"]}}])}
    with pytest.raises(PlacedError) as raised:
        list(grid(space, lambda point: 2))
    text = "int_uniform: [4, layers]: the model has only 2 layers."
    assert raised.value.problems == [(("space", "freeze", 1, "depth"), text)]


def test_samples_that_are_spread_leave_no_eighth_of_an_axis_out_and_more_cells_begin_with_those_of_fewer() -> None:
    space = {"lr": Axis(uniform=(0.0, 1.0)), "n": Axis(choice=list(range(8)))}
    found = [dict(point.dotted_settings()) for point in drawn("sobol", space, 16, 3)]
    assert {int(8 * point["lr"]) for point in found} == {point["n"] for point in found} == set(range(8))
    for kind in ("random", "sobol"):
        few, many = (drawn(kind, {"freeze": FREEZE, "lora": LORA}, n, 1) for n in (5, 40))
        assert [point.parameters for point in many[:5]] == [point.parameters for point in few]


# --- Settings that vary together: each case is laid over the trial, and its mistakes have their place in the file.


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a treebank `bank` and a table `texts`."""
    write_treebank(tmp_path / "bank")
    write_texts(tmp_path / "texts")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sweep(here: Path, text: str) -> Path:
    return write_sweep(here / "s.yaml", text)


def problems(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as error:
        expanded(path)
    return [problem.removeprefix(f"{path}") for problem in error.value.problems]


TWO = """
space:
  cases:
    - {task: pos, data: {folder: bank}}
    - {task: sst2, data: {folder: texts}, optim.lr: 1e-3, train_size: 8}
"""


def test_each_case_is_laid_over_the_trial_and_crossed_with_the_other_axes(here: Path) -> None:
    path = sweep(here, "trial: {optim: {epochs: 3}}" + TWO + "  freeze: [none, all_encoder]\nseeds: [0, 1]\n")
    found = [(s.task, s.data.name, s.optim.lr, s.train_size, s.freeze.label, s.seed) for s in expanded(path)]
    assert found == [
        (*case, freeze, seed)
        for case in (("pos", "bank", 5e-5, 8), ("sst2", "texts", 1e-3, 8))
        for freeze in ("none", "all")
        for seed in (0, 1)
    ]
    assert {spec.optim.epochs for spec in expanded(path)} == {3}


@each(
    "text, said",
    [
        (TWO.replace("task: sst2", "task: sst3"), ":5: space.cases[1].task: "),
        (TWO.replace("1e-3", "-1"), ":5: space.cases[1].optim.lr: "),
        (TWO.replace("folder: bank", "folder: bonk"), ":4: space.cases[0].data: no folder "),
        (
            "space:\n  cases:\n    - {data: {folder: bank}, thaw_every: 1, freeze: none}\n",
            ":3: space.cases[0].thaw_every: nothing is frozen",
        ),
        (
            "trial: {data: {folder: bank}}\nspace: {cases: [{seed: 1}, {seed: 2}]}\n",
            "`seed` is not allowed in `trial` or `space`: list the seeds under `seeds`",
        ),
        *(
            (f"{TWO}  {axis}: {values}\n", f"space: {axis.split('.')[0]} is in `cases` too; they override each other")
            for axis, values in {"task": "[pos]", "optim.lr": "[1e-3]"}.items()
        ),
        *(
            (
                f"trial: {{data: {{folder: bank}}}}\nspace: {{cases: {cases}}}\n",
                "space.cases: must be a list of mappings",
            )
            for cases in ("[pos, sst2]", "[{}]", "{uniform: [0, 1]}")
        ),
    ],
)
def test_a_mistake_in_a_case_is_placed_at_its_key(here: Path, text: str, said: str) -> None:
    assert [problem for problem in problems(sweep(here, text)) if said in problem]
