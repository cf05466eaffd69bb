"""The work of a trial: more of anything never counts as less."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.orchestrator.forecast.worlds import spec_of
from trials.prefix.work import epoch_passes, scored_items, shape_key

Settings = tuple[int, int, int]
SETTINGS = st.tuples(st.integers(0, 6), st.integers(1, 6), st.integers(1, 800))


def passes(settings: Settings) -> float:
    depth, epochs, size = settings
    return epochs * epoch_passes(spec_of(depth, optim={"epochs": epochs}, train_size=size))


@given(SETTINGS, st.integers(1, 4), st.integers(0, 300))
def test_more_epochs_or_sentences_are_never_less_work(settings: Settings, epochs: int, sentences: int) -> None:
    depth, before, size = settings
    if before == 1 and depth:  # one epoch keeps no frozen states, so all layers are run
        before = 2
    more = (depth, before + epochs, size + sentences)
    assert passes(more) >= passes((depth, before, size)) - 1e-9


@given(SETTINGS, st.integers(0, 6))
def test_a_layer_more_that_learns_is_never_less_work(settings: Settings, other: int) -> None:
    shallow, deep = sorted((settings[0], other))
    assert passes((shallow, *settings[1:])) >= passes((deep, *settings[1:])) - 1e-9


def test_shape_is_the_same_for_other_seeds_sizes_epochs_and_rates_and_differs_by_depth() -> None:
    first = shape_key(spec_of(2))
    assert first == shape_key(spec_of(2, seed=5, train_size=50, optim={"lr": 1e-3, "epochs": 7}))
    assert len({first, shape_key(spec_of(3)), shape_key(spec_of(2, optim={"batch_size": 8}))}) == 3


def test_dev_is_scored_at_each_evaluation_and_test_once() -> None:
    assert scored_items(spec_of(optim={"epochs": 3})) == 3 * 200 + 200
    assert scored_items(spec_of(optim={"epochs": 3}, eval_every=0.5)) == 6 * 200 + 200
