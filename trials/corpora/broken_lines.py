"""Errors in the lines of corpus files, collected so that one message reports all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from trials.errors import DataError
from trials.spec import Columns

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
        """Add an error, or all errors of another collection that was raised."""
        lines, n = (error.lines, error.n) if isinstance(error, BrokenLinesError) else ((str(error),), 1)
        self.lines += lines[: MOST - len(self.lines)]
        self.n += n

    def raise_if_any(self) -> None:
        """Raise BrokenLinesError with all errors."""
        if self.n:
            raise BrokenLinesError(self.lines, self.n)


def convert_all(convert: Callable[[FromT], IntoT], items: Iterable[FromT]) -> list[IntoT]:
    """The result of a function for each item. Raises BrokenLinesError with the errors of all items."""
    converted, broken = list[IntoT](), BrokenLines()
    for item in items:
        try:
            converted.append(convert(item))
        except DataError as error:
            broken.add(error)
    broken.raise_if_any()
    return converted


def check_keys(path: Path, columns: Columns, holder: str, *keys: str) -> None:
    """Refuse keys of `columns` that files of a format do not have. Raises DataError."""
    for key, value in columns:
        if value is not None and key not in keys:
            use = f"It takes {' and '.join(keys)}." if keys else "Leave it out."
            raise DataError(f"{path}: columns.{key}: {holder} has no such column. {use}")
