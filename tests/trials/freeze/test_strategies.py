"""Strategies, ours and those of other people: their depths, labels, strips and looks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.freeze_names import layer_strip, parts
from tests.builders import make_spec
from tests.examples import each
from tests.plugin_packages import fresh_plugins as fresh_plugins
from trials.draft import DraftError, FreezeDraft
from trials.freeze.strategies import (
    FREEZE_STRATEGIES,
    FreezeStrategy,
    possible_depths,
)
from trials.spec import FreezeSpec

pytestmark = pytest.mark.usefixtures("fresh_plugins")


def outer(n_layers: int, depth: int) -> frozenset[int]:
    return frozenset(range(depth // 2)) | frozenset(range(n_layers - depth // 2, n_layers))


def spread(n_layers: int, depth: int) -> frozenset[int]:
    return frozenset(range(0, n_layers, n_layers // depth))


def frozen(name: str, strategy: FreezeStrategy, depth: int, *, embeddings: bool = False) -> FreezeSpec:
    if name not in FREEZE_STRATEGIES:
        FREEZE_STRATEGIES.register(name)(strategy)
    return FreezeDraft(strategy=name, depth=depth, embeddings=embeddings).resolve(make_spec().model)


@each(
    "name, depth, label, strip",
    [
        ("ends", 2, "ends 2", "□ ■□□□□■"),
        ("ends", 4, "ends 4", "□ ■■□□■■"),
        ("outermost_k", 2, "outermost 2", "□ ■□□□□■"),
        ("outer-most.3", 2, "outer-most.3 2", "□ ■□□□□■"),
        ("Первые", 4, "Первые 4", "□ ■■□□■■"),
        ("first", 2, "first (plug-in) 2", "□ ■□□□□■"),
        ("all", 2, "all (plug-in) 2", "□ ■□□□□■"),
    ],
)
def test_each_depth_has_its_own_label_and_strip(name: str, depth: int, label: str, strip: str) -> None:
    freeze = frozen(name, outer, depth)
    assert freeze.label == label
    assert layer_strip(freeze, 6) == strip
    assert layer_strip(frozen("first_k", outer, 2), 6) == "□ ■■□□□□"
    assert parts(freeze, 6).endswith("of 6")


@pytest.mark.parametrize(
    ("strategy", "depth", "why"),
    [
        (outer, 1, "1 is not a depth of own in model 'starter' of 6 layers: 0, 2, 4, 6."),
        (spread, 0, "0 is not a depth of own in model 'starter' of 6 layers: 1, 2, 3, 6."),
        (lambda n, d: frozenset(range(d)), 1 << 62, "of 6 layers: 0 to 6."),
        (lambda n, d: {n}, 1, "of 6 layers: none is (it would freeze the layers [6])."),
        (lambda n, d: 1 // 0, 1, "of 6 layers: none is (ZeroDivisionError: integer division or modulo by zero)."),
    ],
)
def test_the_depths_that_freeze_exactly_so_many_layers_are_listed(
    strategy: FreezeStrategy, depth: int, why: str
) -> None:
    with pytest.raises(DraftError) as error:
        frozen("own", strategy, depth)
    assert str(error.value).endswith(why)


# --- Properties of every registered freeze strategy, and what each of them means.


STRATEGIES = list(FREEZE_STRATEGIES)


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
