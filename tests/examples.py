"""How many examples the tests draw: a tenth by default, all where PERMAFROST_ALL_EXAMPLES is set: `make test-slow`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

ALL = bool(os.environ.get("PERMAFROST_ALL_EXAMPLES"))


def examples(number: int) -> int:
    """Of so many examples, those of this run."""
    return number if ALL else max(2, number // 10)


def first(number: int, values: Iterable[Any]) -> list[Any]:
    """Parameters of which so many run with the fast tests, and the others are slow ones."""
    return [value if i < number else pytest.param(value, marks=pytest.mark.slow) for i, value in enumerate(values)]
