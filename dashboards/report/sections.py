"""What a report of a sweep is made of: a section for each set of trials whose scores may stand in one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dashboards.data.frames import Snapshot
from dashboards.data.page_query import Query
from dashboards.data.provenance import Provenance, provenance
from dashboards.data.selection import Selection, select
from dashboards.views.part import Drawn, Part, compute
from dashboards.views.registry import PARTS
from dashboards.views.report import answers, method
from dashboards.views.theme import LIGHT
from trials.errors import NothingMatchedError


@dataclass(frozen=True)
class Section:
    """One corpus, model and set-up.

    Attributes:
        key: For file names and anchors: plain letters, digits and dashes, different for each section.
        title: In words.
        selection: Its trials.
        answers: What the sweep says, with intervals, a line each.
        method: How it was done, a line each.
        parts: Every part that has something to show, in the paper's order.
        empty: The titles of the others and why they are empty.
    """

    key: str
    title: str
    selection: Selection
    answers: tuple[str, ...]
    method: tuple[str, ...]
    parts: tuple[tuple[Part[Any], Drawn], ...]
    empty: tuple[tuple[str, str], ...]

    @property
    def provenance(self) -> Provenance:
        """Where its numbers come from."""
        return provenance(self.selection)


def sections(snapshot: Snapshot, query: Query, versions: dict[str, str]) -> list[Section]:
    """All sections of a sweep.

    Args:
        snapshot: The store.
        query: Names the sweep, and may narrow it; tolerance and cost are those of the answers.
        versions: Of Python and the packages, as the trials say.

    Raises:
        NothingMatchedError: the store has no such sweep, or it has no trial.
    """
    if query.sweep not in snapshot.sweeps:
        known = ", ".join(snapshot.sweeps) or "none"
        raise NothingMatchedError(f"{snapshot.address}: has no sweep {query.sweep!r}. It has: {known}.")
    found = [
        _section(number, selection, versions) for number, selection in enumerate(_selections(snapshot, query), start=1)
    ]
    if not found:
        raise NothingMatchedError(f"sweep {query.sweep}: has no trial.")
    return found


def _selections(snapshot: Snapshot, query: Query) -> Iterator[Selection]:
    """Every corpus, model and set-up, in the sweep's order, as far as the query leaves them open."""
    for corpus in _each(snapshot, query, "corpus"):
        for model in _each(snapshot, corpus, "model"):
            for setup in _each(snapshot, model, "setup"):
                yield select(snapshot, setup)


def _each(snapshot: Snapshot, query: Query, key: str) -> Iterator[Query]:
    if getattr(query, key):
        yield query
        return
    for word in select(snapshot, query).options.get(key, ()):
        yield query.but(**{key: word})


def _section(number: int, selection: Selection, versions: dict[str, str]) -> Section:
    query = selection.query
    drawn = [(part, compute(part, selection, LIGHT)) for part in PARTS.values()]
    setup = f", {query.setup}" if query.setup else ""
    return Section(
        key=f"s{number}",
        title=f"{query.corpus}, {query.model}{setup}",
        selection=selection,
        answers=answers(selection),
        method=method(selection, versions),
        parts=tuple((part, found) for part, found in drawn if not found.why_empty),
        empty=tuple((part.title, found.why_empty) for part, found in drawn if found.why_empty),
    )
