"""Expected seconds: between those that were timed; more is never cheaper, and nothing is guessed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.forecast.forecast import expected_s
from tests.examples import examples
from tests.orchestrator.forecast.worlds import spec_of, timed


def test_a_shape_between_two_that_were_timed_takes_a_time_between_theirs() -> None:
    found = expected_s(spec_of(4), [timed(spec_of(depth)) for depth in (0, 2, 6)])
    took = timed(spec_of(4))
    assert found == pytest.approx(took.seconds + took.once_s, rel=0.02)


@settings(max_examples=examples(25))
@given(st.integers(0, 5), st.integers(2, 5), st.integers(20, 400), st.integers(0, 300), st.integers(0, 3))
def test_more_epochs_sentences_or_layers_are_never_forecast_cheaper(
    depth: int, epochs: int, size: int, more: int, later: int
) -> None:
    small, large = (
        expected_s(spec_of(d, train_size=n, optim={"epochs": e}), [timed(spec_of(2))])
        for d, n, e in ((depth + 1, size, epochs), (depth, size + more, epochs + later))
    )
    assert small is not None
    assert large is not None
    assert large >= small * 0.999


def test_of_a_model_or_precision_that_was_not_timed_nothing_is_guessed() -> None:
    seen, model = [timed(spec_of(0))], spec_of(0).model
    other = spec_of(0).model_copy(update={"model": model.model_copy(update={"revision": "b" * 64})})
    assert [expected_s(spec, seen) for spec in (other, spec_of(0, precision="bf16"))] == [None, None]
    assert expected_s(spec_of(0), []) is None
