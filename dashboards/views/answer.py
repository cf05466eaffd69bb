"""Answer: how much can be frozen? Loss against saving with the tolerance between, and what to freeze or to run."""

from __future__ import annotations

from typing import Any, NamedTuple

import dash_mantine_components as dmc
from dash import html

from dashboards.data.selection import Selection, page_selection
from dashboards.views import coverage
from dashboards.views.kit.cards import (
    PageAnswers,
    ShortAnswer,
    answers_of_page,
    answers_table,
    cards_or_table,
    hidden_answers_note,
    short_answers,
)
from dashboards.views.kit.part import EmptyPartError, Part, View
from dashboards.views.losses import LOSSES
from dashboards.views.sweep_list import SWEEPS, add_sweep_callbacks
from orchestrator.analysis.wording import NO_CANDIDATES
from orchestrator.config.quantities import amount


class Cards(NamedTuple):
    """The answers of the page; the selection has their sweep and store."""

    found: PageAnswers
    selection: Selection


def prepare_cards(selection: Selection) -> Cards:
    """The cards of the page's answers."""
    page = answers_of_page(selection)
    if not page.answers:
        raise EmptyPartError(NO_CANDIDATES)
    return Cards(page, selection)


def cards_body(info: Cards) -> Any:
    """Cards, or from five answers on a table, and one command for what is not decided."""
    sweep = info.selection.sweep
    assert sweep is not None
    return cards_or_table(info.found.answers, sweep, info.selection.snapshot.address)


def first_glance(selection: Selection) -> Any:
    """The answer in one sentence per corpus, and the progress of an unfinished sweep."""
    if selection.sweep is None:
        store = selection.snapshot.address
        text = f"{store} has no sweep yet. Run one: permafrost launch --store {store}"
        return dmc.Alert(text, title="Empty store", color="blue", variant="outline")
    lines = [html.P([html.B(f"{subject}: ") if subject else "", words]) for subject, words in _sentences(selection)]
    limit = amount(selection.plan.tolerance, "point")
    heading = html.P(f"To lose at most {limit}:", className="asked")
    return html.Div([heading, html.Div(lines, className="sentence-first"), *coverage.progress(selection)])


def _sentences(selection: Selection) -> list[ShortAnswer]:
    if not (selection.sweep is not None and (selection.sweep.trials["state"] == "completed").any()):
        return [ShortAnswer("", "No trial has completed yet, so there is no answer.")]
    try:
        return short_answers(answers_of_page(selection).answers)
    except EmptyPartError as error:
        return [ShortAnswer("", str(error))]


def text_lines(selection: Selection) -> list[str]:
    """The answer as plain text, one line per corpus."""
    return [f"{subject}: {words}" if subject else words for subject, words in _sentences(selection)]


def page_sentences(selection: Selection) -> list[str]:
    """The answers in full, for files; none if there are none."""
    if selection.sweep is None:
        return []
    try:
        return [f"{answer.heading}: {answer.sentence}" for answer in answers_of_page(selection).answers]
    except EmptyPartError:
        return []


ANSWERS = Part(
    "answer-cards",
    "What to freeze",
    "The setting that saves most among those shown to lose no more than the tolerance.",
    prepare_cards,
    lambda info: answers_table(info.found.answers),
    body=lambda info, look: cards_body(info),
    note=lambda info: hidden_answers_note(info.found),
    of_store=True,
    shows=page_selection,
)
VIEW = View(
    "/",
    "Answer",
    "How much can be frozen, and what does that save?",
    (LOSSES, ANSWERS, coverage.FAILURES, SWEEPS, coverage.COVERAGE),
    ("sweep", "corpus", "model", "setup", "size", "tolerance", "cost"),
    content=first_glance,
    add_callbacks=add_sweep_callbacks,
    of_all=("corpus", "model", "size"),
    why_dimmed=lambda selection: "",
    shows=page_selection,
)
