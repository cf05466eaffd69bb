"""Every error a user can cause has a public exit code and tells all there is to tell."""

from __future__ import annotations

import pickle

import pytest

from tests.examples import each
from trials.draft import DraftError
from trials.errors import ConfigError, DataError, DivergedError, ModelError, PermafrostError, StoreError, unknown


@each(
    "error, code",
    [(ConfigError("x"), 2), (DataError("x"), 3), (ModelError("x"), 3), (StoreError("x"), 3), (DivergedError("x"), 70)],
)
def test_exit_codes_are_those_of_the_readme(error: PermafrostError, code: int) -> None:
    assert error.exit_code == code
    assert isinstance(error, PermafrostError)


def test_a_config_error_holds_all_problems_a_line_each() -> None:
    error = ConfigError(["a: wrong", "b: wrong"], exit_code=3)
    assert error.problems == ("a: wrong", "b: wrong")
    assert str(error) == "a: wrong\nb: wrong"
    assert error.exit_code == 3


def test_one_problem_needs_no_list() -> None:
    assert ConfigError("a: wrong").problems == ("a: wrong",)


def test_a_draft_error_names_its_keys() -> None:
    error = DraftError([(("freeze", "layers", 1), "7 is beyond."), (("train_size",), "9 is too large.")], 2)
    assert str(error) == "freeze.layers.1: 7 is beyond.\ntrain_size: 9 is too large."


@pytest.mark.parametrize("error", [DataError("a:1: broken"), DivergedError("nan"), ConfigError(["a", "b"])])
def test_an_error_survives_the_way_between_processes(error: PermafrostError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))


def test_an_unknown_word_is_answered_with_the_nearest() -> None:
    assert unknown("frist", ["first", "last"]) == "unknown 'frist', did you mean 'first'? Known: first, last."


def test_where_nothing_is_near_all_known_words_are_listed() -> None:
    assert unknown("xyz", ["last", "first"]) == "unknown 'xyz'. Known: first, last."
