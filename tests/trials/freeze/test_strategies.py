"""Properties of every registered freeze strategy, and what each of them means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from trials.freeze.strategies import FREEZE_STRATEGIES, LAYERS, possible_depths

STRATEGIES = list(FREEZE_STRATEGIES)
DEPTHS = st.integers(1, 48).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


def test_the_strategies_are_those_of_the_readme() -> None:
    assert STRATEGIES == ["all_encoder", "alternating", "first_k", "last_k", "none"]


def test_an_explicit_list_of_layers_is_no_rule() -> None:
    assert LAYERS not in FREEZE_STRATEGIES


@each("strategy", STRATEGIES)
@given(st.integers(1, 48))
def test_a_possible_depth_freezes_that_many_layers_of_the_model(strategy: str, n_layers: int) -> None:
    depths = possible_depths(strategy, n_layers)
    assert depths == sorted(set(depths))
    assert depths
    for depth in depths:
        frozen = FREEZE_STRATEGIES[strategy](n_layers, depth)
        assert len(frozen) == depth
        assert frozen <= set(range(n_layers))


@given(DEPTHS)
def test_first_and_last_layers_complete_each_other(size: tuple[int, int]) -> None:
    n_layers, depth = size
    first, last = FREEZE_STRATEGIES["first_k"](n_layers, depth), FREEZE_STRATEGIES["last_k"](n_layers, n_layers - depth)
    assert first.isdisjoint(last)
    assert first | last == set(range(n_layers))


@given(DEPTHS)
def test_first_k_is_a_prefix_and_grows_by_one_layer(size: tuple[int, int]) -> None:
    n_layers, depth = size
    first_k = FREEZE_STRATEGIES["first_k"]
    assert first_k(n_layers, depth) == set(range(depth))
    assert depth == 0 or first_k(n_layers, depth) - first_k(n_layers, depth - 1) == {depth - 1}


@given(st.integers(1, 48))
def test_freezing_all_layers_is_the_same_from_either_end(n_layers: int) -> None:
    everything = FREEZE_STRATEGIES["all_encoder"](n_layers, n_layers)
    assert everything == FREEZE_STRATEGIES["first_k"](n_layers, n_layers)
    assert everything == FREEZE_STRATEGIES["last_k"](n_layers, n_layers)


@each(
    "strategy, depths, layers",
    [
        ("none", [0], []),
        ("first_k", [0, 1, 2, 3, 4, 5], [0, 1, 2]),
        ("last_k", [0, 1, 2, 3, 4, 5], [2, 3, 4]),
        ("alternating", [3], [0, 2, 4]),
        ("all_encoder", [5], [0, 1, 2, 3, 4]),
    ],
)
def test_what_a_strategy_freezes_of_five_layers(strategy: str, depths: list[int], layers: list[int]) -> None:
    assert possible_depths(strategy, 5) == depths
    depth = 3 if 3 in depths else depths[0]
    assert sorted(FREEZE_STRATEGIES[strategy](5, depth)) == layers


def test_an_unknown_strategy_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown 'frist_k', did you mean 'first_k'"):
        possible_depths("frist_k", 6)
