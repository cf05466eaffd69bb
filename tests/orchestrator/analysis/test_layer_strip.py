"""The layer strip shows what a setting freezes, in squares and in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.layer_strip import (
    FROZEN,
    freeze_name,
    frozen_parts,
    layer_strip,
    strip_in_words,
)
from trials.freeze.strategies import FREEZE_STRATEGIES, possible_depths
from trials.settings import FreezeSpec


@pytest.mark.parametrize(
    ("label", "strip", "words"),
    [
        ("none", "□ □□□□□□", "none of 6 layers frozen"),
        ("embeddings", "■ □□□□□□", "the embeddings frozen"),
        ("first 2+E", "■ ■■□□□□", "layers 1 to 2 of 6 and the embeddings frozen"),
        ("last 1", "□ □□□□□■", "layer 6 of 6 frozen"),
        ("alternating", "□ ■□■□■□", "layers 1, 3, 5 of 6 frozen"),
        ("all+E", "■ ■■■■■■", "all 6 layers and the embeddings frozen"),
        ("layers 0,1,4", "□ ■■□□■□", "layers 1 to 2, 5 of 6 frozen"),
    ],
)
def test_a_square_is_filled_where_the_part_is_frozen(label: str, strip: str, words: str) -> None:
    assert layer_strip(label, 6) == strip
    assert strip_in_words(label, 6) == words


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("first 4+E", "first 4 + embeddings"),
        ("layers 0,1,4+E", "layers 1 to 2, 5 + embeddings"),
        ("layers 2", "layer 3"),
        ("somebody's own layers", "somebody's own layers"),
    ],
)
def test_people_are_shown_layers_counted_from_1_as_in_the_strip(label: str, name: str) -> None:
    assert freeze_name(label) == name


@pytest.mark.parametrize("label", ["", "first 9", "first two", "somebody's own", "layers a", "layers 7", "layers"])
def test_an_unknown_label_has_no_strip_and_stays_as_it_is(label: str) -> None:
    assert layer_strip(label, 6) == ""
    assert strip_in_words(label, 6) == label


@given(st.sampled_from(sorted(FREEZE_STRATEGIES)), st.integers(1, 30), st.booleans(), st.data())
def test_the_label_of_every_strategy_says_which_parts_it_freezes(
    strategy: str, n_layers: int, embeddings: bool, data: st.DataObject
) -> None:
    depth = data.draw(st.sampled_from(possible_depths(strategy, n_layers)))
    layers = FREEZE_STRATEGIES[strategy](n_layers, depth)
    spec = FreezeSpec(strategy=strategy, layers=tuple(sorted(layers)), embeddings=embeddings)
    found = frozen_parts(spec.label, n_layers)
    assert found
    assert found[:2] == (layers, embeddings)
    assert layer_strip(spec.label, n_layers).count(FROZEN) == len(layers) + embeddings
