"""The sections of a report: one for each set of trials whose scores may be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dashboards.data.frames import Snapshot
from dashboards.data.page_query import PageQuery
from dashboards.data.provenance import Provenance, provenance
from dashboards.data.selection import Selection, select
from dashboards.views.part import Drawn, Part, compute
from dashboards.views.registry import PARTS
from dashboards.views.report_page import answers, method
from dashboards.views.theme import LIGHT
from trials.errors import NothingMatchedError


@dataclass(frozen=True)
class Section:
    """One corpus, model and set-up.

    Attributes:
        key: Unique, for file names and anchors: letters, digits and dashes.
        title: Corpus, model and set-up.
        selection: The trials.
        answers: Sentences with the results and their intervals.
        method: Sentences about what was run and how it was evaluated.
        parts: Every part that has something to show, in the order of the views.
        empty: The titles of the other parts, and why they are empty.
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


def sections(snapshot: Snapshot, query: PageQuery, versions: dict[str, str]) -> list[Section]:
    """All sections of a sweep.

    Args:
        snapshot: The store.
        query: Names the sweep and may narrow it; its tolerance and cost are used for the answers.
        versions: Versions of Python and packages, as recorded with the trials.

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


def _selections(snapshot: Snapshot, query: PageQuery) -> Iterator[Selection]:
    """Every corpus, model and set-up that the query does not exclude, in the sweep's order."""
    for corpus in _each(snapshot, query, "corpus"):
        for model in _each(snapshot, corpus, "model"):
            for setup in _each(snapshot, model, "setup"):
                yield select(snapshot, setup)


def _each(snapshot: Snapshot, query: PageQuery, key: str) -> Iterator[PageQuery]:
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
