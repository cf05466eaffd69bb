"""What others supply ends no line of a message and sends no control sequence to a terminal."""

from __future__ import annotations

import pickle

import pytest

from tests.examples import each
from trials.errors import (
    LONGEST_LINE,
    ConfigError,
    DataError,
    DivergedError,
    ModelError,
    PermafrostError,
    StoreError,
)

RED = "\x1b[31m"


@each("kind", [DataError, ModelError, StoreError])
@each("odd", [RED, "\r", "\n", "\0", "\x7f", "\x85", "\x9b31m", "\u2028", "\u202e", "\ud800", "\x08" * 9])
def test_a_message_is_one_line_that_can_be_shown(kind: type[PermafrostError], odd: str) -> None:
    message = str(kind(f"a{odd}b.conllu:1: broken"))
    assert message.isprintable()
    assert message.startswith("a")
    assert message.endswith("b.conllu:1: broken")


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    message = str(DataError(f"x.tsv:1: {'x' * 10**6}. Fix this row."))
    assert len(message) < LONGEST_LINE
    assert message.startswith("x.tsv:1: xxx")
    assert message.endswith("xxx. Fix this row.")


# --- Every error a user can cause has a public exit code and tells all there is to tell.


@each(
    "error, code",
    [(ConfigError("x"), 2), (DataError("x"), 3), (ModelError("x"), 3), (StoreError("x"), 3), (DivergedError("x"), 70)],
)
def test_exit_codes_are_those_of_the_readme(error: PermafrostError, code: int) -> None:
    assert error.exit_code == code
    assert isinstance(error, PermafrostError)


@pytest.mark.parametrize("error", [DataError("a:1: broken"), DivergedError("nan"), ConfigError(["a", "b"])])
def test_an_error_survives_the_way_between_processes(error: PermafrostError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
