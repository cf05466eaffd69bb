"""The first page of a report: the question, the answers, one figure and one table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from dashboards.data.frames import Snapshot
from dashboards.data.page_query import PageQuery
from dashboards.data.selection import select
from dashboards.views.answer_cards import figures_of, headline, setting_of, where_of
from dashboards.views.part import Drawn, Part, compute
from dashboards.views.recommendation import answers_of_sweep
from dashboards.views.registry import PARTS
from dashboards.views.theme import LIGHT
from orchestrator.analysis.answer import Answer
from orchestrator.analysis.layer_strip import FreezeName, layer_strip
from orchestrator.config.quantities import counted

MOST_ANSWERS = 60


class Card(NamedTuple):
    """An answer in short.

    Attributes:
        where: Corpus, task, model and train size.
        strip: The layer strip of the setting; empty if there is none.
        figures: Its loss with the interval, and what it saves; empty if nothing was compared.
    """

    where: str
    strip: str
    headline: str
    figures: str


@dataclass(frozen=True)
class SummaryPage:
    """What a report says first.

    Attributes:
        cards: The answers, or those of the largest train sizes.
        parts: Figures over the whole sweep or store that have something to show.
    """

    question: str
    cards: tuple[Card, ...]
    table: pd.DataFrame
    parts: tuple[tuple[Part[object], Drawn], ...]


def summary(snapshot: Snapshot, query: PageQuery) -> SummaryPage:
    """The summary of a sweep, by the tolerance, cost and budget of the query."""
    selection = select(snapshot, query)
    try:
        found = answers_of_sweep(selection, MOST_ANSWERS)[0]
    except ValueError:  # the sections say why
        found = []
    models = ", ".join(dict.fromkeys(answer.model for answer in found)) or "the encoder"
    drawn = ((part, compute(part, selection, LIGHT)) for part in PARTS.values() if part.of_store)
    limit = counted(selection.plan.tolerance, "point")
    return SummaryPage(
        f"How much of {models} can be frozen before quality falls by more than {limit}?",
        tuple(map(_card, found)),
        _table(found),
        tuple((part, each) for part, each in drawn if not each.why_empty),
    )


def _card(answer: Answer) -> Card:
    row = answer.decided_by.subject
    strip = layer_strip(setting_of(answer), answer.n_layers)
    return Card(where_of(answer), strip, headline(answer), "" if row is None else figures_of(answer, row))


def _table(found: list[Answer]) -> pd.DataFrame:
    """The figures of the answers."""
    return pd.DataFrame(
        {
            "corpus": [answer.corpus for answer in found],
            "model": [answer.model for answer in found],
            "train size": [answer.train_size for answer in found],
            "freeze": pd.Series(
                [FreezeName(each.freeze, each.n_layers) if each.freeze else "not decided" for each in found],
                dtype=object,
            ),
            "loss (points)": _floats(answer.loss for answer in found),
            "from (points)": _floats(answer.low for answer in found),
            "to (points)": _floats(answer.high for answer in found),
            "FLOPs saved (%)": _floats(_percent(answer.saved_flops) for answer in found),
            "time saved (%)": _floats(_percent(answer.saved_time) for answer in found),
            "seeds": [answer.n_seeds for answer in found],
        }
    )


def _floats(values: Iterable[float | None]) -> pd.Series:
    return pd.Series(list(values), dtype="float64")


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
