"""Errors of calls from Python name Python's arguments, and say wrong types in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import api as typed
from trials.errors import ConfigError, PermafrostError

api: Any = typed  # as untyped code calls it


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: api.answer("results", tolerance="x"), "tolerance: 'x': must be a number."),
        (lambda: api.answer(5), "store: 5: must be text."),
        (lambda: api.answer(stroe="results"), "unknown 'stroe', did you mean 'store'? Known: "),
        (lambda: api.launch(["a"]), "sweep: ['a']: must be a mapping of keys to values or a path or text."),
        (lambda: api.launch({}, max_hours=0), "max_hours 0: must be above 0."),
        (lambda: api.choose("x", text="a"), "text and label go together. Give both, by name or by position from 0."),
        (lambda: api.choose("x", train=5), "train: 5: must be a list."),
        (lambda: api.train("x", keep="bset"), "keep: 'bset': must be 'best' or 'all'."),
    ],
)
def test_a_wrong_argument_is_told_by_its_name_in_python(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        call()
    assert str(error.value).startswith(said)


def test_a_word_that_the_type_lists_and_a_path_in_place_of_a_text_are_taken(tmp_path: Path) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: api.train("x", keep="all"),
        lambda: api.answer("nowhere", at_best="lr"),
        lambda: api.table(tmp_path / "nowhere"),
    ]
    for call in calls:
        with pytest.raises(PermafrostError, match="no store there"):
            call()
    with pytest.raises(ConfigError, match="unknown 'tolerence', did you mean 'tolerance'"):
        api.choose("x", tolerence=1)
