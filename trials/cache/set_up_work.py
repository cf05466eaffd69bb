"""What a trial does before its first record, for whoever runs it to show.

    with report_to(show):
        record = next(records)      # calls show("encoding en_ewt train: 1,200 of 2,000 sentences") now and then

Encoding a corpus and computing states of frozen layers take minutes on large data. A trial whose caches are warm
reports nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

EVERY_S = 2.0  # between two reports, and before the first

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SetUpWork:
    """A countable part of the set-up of a trial; or, with a total of 0, a note.

    Attributes:
        what: What is done to what, e.g. `encoding en_ewt train`.
        unit: What is counted, e.g. `sentences`.
    """

    what: str
    total: int = 0
    unit: str = ""
    done: int = 0

    @property
    def is_note(self) -> bool:
        """Whether it is something to say once, such as that a broken file was thrown away."""
        return not self.total

    def __str__(self) -> str:
        return self.what if self.is_note else f"{self.what}: {self.done:,} of {self.total:,} {self.unit}"


Report = Callable[[SetUpWork], None]
_reporting: ContextVar[tuple[Report, float] | None] = ContextVar("_reporting", default=None)


@contextmanager
def report_to(report: Report, every_s: float = EVERY_S) -> Iterator[None]:
    """Call `report` with the work of trials that run inside the block, no more often than every `every_s` seconds."""
    token = _reporting.set((report, every_s))
    try:
        yield
    finally:
        _reporting.reset(token)


def note(what: str) -> None:
    """Report something about the set-up at once: to the listener for its progress, or else in the log."""
    if reporting := _reporting.get():
        reporting[0](SetUpWork(what))
    else:
        _log.warning("%s", what)


def count_progress(items: Iterable[T], work: SetUpWork, size: Callable[[T], int] = lambda _: 1) -> Iterator[T]:
    """The items; each counts as done when the next one is requested. `size` is how much an item counts."""
    reporting = _reporting.get()
    if reporting is None:
        yield from items
        return
    report, every_s = reporting
    done, due = 0, time.monotonic() + every_s
    for item in items:
        yield item
        done += size(item)
        if (now := time.monotonic()) >= due:
            report(SetUpWork(work.what, work.total, work.unit, done))
            due = now + every_s
