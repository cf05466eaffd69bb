"""The first page of a report: the question, the answers, one figure and one table."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from dashboards.data.frames import Snapshot
from dashboards.data.page_query import PageQuery
from dashboards.data.selection import Provenance, of_page, provenance, select
from dashboards.views.kit.cards import answers_of_page, answers_table, setting_of
from dashboards.views.kit.part import Drawn, EmptyPartError, Part, compute
from dashboards.views.kit.theme import LIGHT
from dashboards.views.registry import PARTS
from orchestrator.analysis.answer import Answer
from orchestrator.analysis.freeze_names import layer_strip
from orchestrator.config.quantities import counted

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
        answers = answers_of_page(selection, MOST_ANSWERS).answers
    except EmptyPartError:  # the sections say why
        answers = []
    models = ", ".join(dict.fromkeys(answer.model for answer in answers)) or "the encoder"
    drawn = ((part, compute(part, selection, LIGHT)) for part in PARTS.values() if part.of_store and part.draw)
    limit = counted(selection.plan.tolerance, "point")
    return SummaryPage(
        f"How much of {models} can be frozen before quality falls by more than {limit}?",
        tuple(map(_card, answers)),
        answers_table(answers).drop(columns=["further seeds", "next best", "answer", "YAML snippet"]),
        tuple((part, result) for part, result in drawn if not result.why_empty),
        provenance(of_page(selection)),
    )


def _card(answer: Answer) -> tuple[str, str, str, str]:
    strip = layer_strip(setting_of(answer), answer.n_layers)
    return answer.heading, strip, answer.headline, answer.words.brief
