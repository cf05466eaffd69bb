"""The sections of a report: one for each set of trials whose scores may be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dashboards.data.frames import Snapshot
from dashboards.data.page_query import PageQuery
from dashboards.data.provenance import Provenance, provenance
from dashboards.data.selection import Selection, of_page, select
from dashboards.report.methods import answer_lines, method
from dashboards.views.kit.answers import answers_of_page, answers_table
from dashboards.views.kit.cards import figures_of, headline, setting_of, where_of
from dashboards.views.kit.part import Drawn, EmptyPartError, Part, compute
from dashboards.views.kit.theme import LIGHT
from dashboards.views.registry import PARTS
from orchestrator.analysis.answer import Answer
from orchestrator.analysis.cells import layer_strip
from orchestrator.config.quantities import counted
from trials.errors import NothingMatchedError
from trials.sources.cache import Progress


@dataclass(frozen=True)
class Section:
    """One corpus, model and set-up.

    Attributes:
        key: Unique, for file names and anchors: letters, digits and dashes.
        title: Corpus, model and set-up.
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


def sections(
    snapshot: Snapshot, query: PageQuery, versions: dict[str, str], progress: Progress = lambda name, done, total: None
) -> list[Section]:
    """All sections of a sweep.

    Args:
        query: Names the sweep and may narrow it; its tolerance and cost are used for the answers.
        versions: Versions of Python and packages, as recorded with the trials.
        progress: Is told how many figures and tables are computed.

    Raises:
        NothingMatchedError: the store has no such sweep, or it has no trial.
    """
    require_sweep(snapshot, query.sweep)
    selections = [
        select(snapshot, model)  # of several set-ups the best
        for corpus in _each(snapshot, query, "corpus")
        for model in _each(snapshot, corpus, "model")
    ]
    if not selections:
        raise NothingMatchedError(f"sweep {query.sweep}: has no trial.")
    parts = [part for part in PARTS.values() if not part.of_store]
    found = []
    for number, selection in enumerate(selections):
        drawn: list[tuple[Part[Any], Drawn]] = []
        for part in parts:
            progress("figures and tables", number * len(parts) + len(drawn), len(selections) * len(parts))
            drawn.append((part, compute(part, selection, LIGHT)))
        found.append(_section(number + 1, selection, versions, drawn))
    progress("figures and tables", len(selections) * len(parts), len(selections) * len(parts))
    return found


def methods(found: Sequence[Section]) -> tuple[list[str], list[tuple[Section, list[str]]]]:
    """(sentences of the methods that all sections have, then each section with those of its own)."""
    shared = [line for line in found[0].method if all(line in section.method for section in found)]
    own = [(section, [line for line in section.method if line not in shared]) for section in found]
    return shared, [(section, lines) for section, lines in own if lines]


def _each(snapshot: Snapshot, query: PageQuery, key: str) -> Iterator[PageQuery]:
    """The query for each value of a key that it does not exclude, in the sweep's order."""
    if getattr(query, key):
        yield query
        return
    for word in select(snapshot, query).options.get(key, ()):
        yield query.but(**{key: word})


def _section(
    number: int, selection: Selection, versions: dict[str, str], drawn: Sequence[tuple[Part[Any], Drawn]]
) -> Section:
    query = selection.query
    setup = f", {query.setup}" if query.setup else ""
    return Section(
        key=f"s{number}",
        title=f"{query.corpus}, {query.model}{setup}",
        selection=selection,
        answers=answer_lines(selection),
        method=method(selection, versions),
        parts=tuple((part, found) for part, found in drawn if not found.why_empty),
        empty=tuple((part.title, found.why_empty) for part, found in drawn if found.why_empty),
    )


def require_sweep(snapshot: Snapshot, name: str) -> None:
    """Raise NothingMatchedError if the store has no sweep of this name."""
    if name not in snapshot.sweeps:
        known = ", ".join(snapshot.sweeps) or "none"
        raise NothingMatchedError(f"{snapshot.address}: has no sweep {name!r}. It has: {known}.")


# The first page of a report: the question, the answers, one figure and one table.

MOST_ANSWERS = 60


@dataclass(frozen=True)
class SummaryPage:
    """What a report says first.

    Attributes:
        cards: Of each answer, or those of the largest train sizes: corpus, task, model and train size; the layer strip
            of the setting; the headline; loss and saving. What there is none of is empty.
        parts: Figures over the whole sweep or store that have something to show.
        source: What they were made from.
    """

    question: str
    cards: tuple[tuple[str, str, str, str], ...]
    table: pd.DataFrame
    parts: tuple[tuple[Part[object], Drawn], ...]
    source: Provenance


def summary(snapshot: Snapshot, query: PageQuery) -> SummaryPage:
    """The summary of a sweep, by the tolerance, cost and budget of the query."""
    selection = select(snapshot, query)
    try:
        found = answers_of_page(selection, MOST_ANSWERS).answers
    except EmptyPartError:  # the sections say why
        found = []
    models = ", ".join(dict.fromkeys(answer.model for answer in found)) or "the encoder"
    drawn = ((part, compute(part, selection, LIGHT)) for part in PARTS.values() if part.of_store and part.draw)
    limit = counted(selection.plan.tolerance, "point")
    return SummaryPage(
        f"How much of {models} can be frozen before quality falls by more than {limit}?",
        tuple(map(_card, found)),
        answers_table(found).drop(columns=["further seeds", "next best", "answer", "YAML snippet"]),
        tuple((part, each) for part, each in drawn if not each.why_empty),
        provenance(of_page(selection)),
    )


def _card(answer: Answer) -> tuple[str, str, str, str]:
    strip = layer_strip(setting_of(answer), answer.n_layers)
    return where_of(answer), strip, headline(answer), figures_of(answer)
