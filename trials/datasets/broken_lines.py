"""Collect what is wrong with the lines of corpus files, so that one message tells all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from trials.errors import DataError

FromT = TypeVar("FromT")
IntoT = TypeVar("IntoT")

MOST = 20  # lines that a message tells; the others are counted


class BrokenLinesError(DataError):
    """Lines that break their file's format.

    Attributes:
        lines: What is wrong with the first ones, a message each.
    """

    def __init__(self, lines: Sequence[str], n: int) -> None:
        self.lines, self.n = tuple(lines), n
        rest = n - len(lines)
        super().__init__(*lines, *([f"... and {rest:,} more broken line{'s' * (rest != 1)}."] if rest else []))


class BrokenLines:
    """The errors so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.n = 0

    def add(self, error: DataError) -> None:
        """Add an error, or all of those that another collection has raised."""
        lines, n = (error.lines, error.n) if isinstance(error, BrokenLinesError) else ((str(error),), 1)
        self.lines += lines[: MOST - len(self.lines)]
        self.n += n

    def raise_if_any(self) -> None:
        """Raise BrokenLinesError with all errors."""
        if self.n:
            raise BrokenLinesError(self.lines, self.n)


def convert_all(convert: Callable[[FromT], IntoT], each: Iterable[FromT]) -> list[IntoT]:
    """What a function makes of each. Raises BrokenLinesError with the errors of all of them."""
    found, broken = list[IntoT](), BrokenLines()
    for one in each:
        try:
            found.append(convert(one))
        except DataError as error:
            broken.add(error)
    broken.raise_if_any()
    return found
