"""How many examples the tests draw: a fifth by default, all where PERMAFROST_ALL_EXAMPLES is set, as `.ci/run` does."""

from __future__ import annotations

import os

ALL = bool(os.environ.get("PERMAFROST_ALL_EXAMPLES"))


def examples(number: int) -> int:
    """Of so many examples, those of this run."""
    return number if ALL else max(2, number // 5)
