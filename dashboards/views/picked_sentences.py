"""The sentences of dev that the picked trials label differently."""

from __future__ import annotations

from typing import Any, NamedTuple

import dash_mantine_components as dmc
import pandas as pd
from dash import html

from dashboards.data.picks import Picks, picks_of
from dashboards.data.predictions import Disagreement, disagreements
from dashboards.data.selection import Selection
from dashboards.views.part import Part
from orchestrator.config.quantities import counted
from trials.errors import StoreError

MAX_SENTENCES = 20


class Sentences(NamedTuple):
    """The sentences of dev that the picked trials label differently.

    Attributes:
        picks: The trials with predictions.
        found: The sentences, those with most differing words first.
        n: Number of sentences that all of them labelled.
    """

    picks: Picks
    found: list[Disagreement]
    n: int
    note: str
    why_not: str


_STORE_THEM = "Set `predictions: all` in the sweep file to store them."


def prepare_sentences(selection: Selection) -> Sentences:
    """Of the trials whose predictions are stored."""
    picks = picks_of(selection)
    if picks.why_not:
        return Sentences(picks, [], 0, "", picks.why_not)
    try:
        found, n, without = disagreements(selection.snapshot, picks.trials["trial_id"].tolist(), "dev")
    except StoreError as error:
        return Sentences(picks, [], 0, "", str(error))
    kept = picks._replace(trials=picks.trials[~picks.trials["trial_id"].isin(without)])
    absent = ", ".join(str(number) for number in picks.trials["number"][picks.trials["trial_id"].isin(without)])
    note = f"No predictions are stored of trial {absent}. {_STORE_THEM}" if without else ""
    found = sorted(found, key=lambda each: (-sum(each.differs), each.number))
    return Sentences(kept, found, n, note, _why_no_sentences(kept, found, n, note))


def _why_no_sentences(picks: Picks, found: list[Disagreement], n: int, note: str) -> str:
    if len(picks.trials) < 2:
        return f"Predictions can be compared where two trials have them. {note}"
    if not n:
        return "These trials have no dev sentence in common: pick trials of one corpus on the page Trials."
    return "" if found else f"No difference in {counted(n, 'sentence')} of dev. {note}".strip()


def sentences_body(info: Sentences) -> Any:
    """The first sentences; words whose labels differ are marked, with what each trial says."""
    numbers_of = info.picks.trials["number"].tolist()
    right = [
        f"trial {number} has {sum(_right(each, at) for each in info.found):,}" for at, number in enumerate(numbers_of)
    ]
    words = sum(sum(each.differs) for each in info.found)
    head = (
        f"{len(info.found):,} of {counted(info.n, 'sentence')} of dev are labelled differently, in "
        f"{counted(words, 'word')}; of these words, {', '.join(right)} right."
    )
    shown = info.found[:MAX_SENTENCES]
    cut = f" The first {len(shown)} follow, those with most differing words first; the CSV has all."
    return html.Div(
        [
            dmc.Text(head + (cut if len(shown) < len(info.found) else "")),
            *([dmc.Text(info.note)] if info.note else []),
            *(_marked(each, numbers_of) for each in shown),
        ]
    )


def _right(found: Disagreement, at: int) -> int:
    return sum(
        differs and label == gold
        for differs, label, gold in zip(found.differs, found.predicted[at], found.gold, strict=True)
    )


def _marked(found: Disagreement, numbers_of: list[int]) -> Any:
    """A sentence; a mark says the correct label, then others, each with the numbers of the trials that predict it."""
    if len(found.words) != len(found.gold):  # a text with one label
        return html.P([" / ".join(found.words), " ", _mark("", found, 0, numbers_of)], className="sentence", dir="auto")
    parts: list[Any] = []
    for at, (word, differs) in enumerate(zip(found.words, found.differs, strict=True)):
        parts += [_mark(word, found, at, numbers_of) if differs else word, " "]
    return html.P(parts, className="sentence", dir="auto")


def _mark(word: str, found: Disagreement, at: int, numbers_of: list[int]) -> Any:
    by_label: dict[str, list[str]] = {found.gold[at]: []}
    for number, labels in zip(numbers_of, found.predicted, strict=True):
        by_label.setdefault(labels[at] or "nothing", []).append(str(number))
    said = ", ".join(f"{label} ({' '.join(trials) or 'none'})" for label, trials in by_label.items())
    plain = {"background": "transparent", "color": "inherit"}  # so many marks would glare
    return html.Mark([word, html.Span(f" {said}", className="tag")], className="wrong", style=plain)


def sentences_table(info: Sentences) -> pd.DataFrame:
    """One row per word whose labels differ."""
    numbers_of = info.picks.trials["number"].tolist()
    rows = [
        {
            "sentence": each.number,
            "word": each.words[at] if len(each.words) == len(each.gold) else " / ".join(each.words),
            "gold": gold,
            **{f"trial {number}": labels[at] or "" for number, labels in zip(numbers_of, each.predicted, strict=True)},
        }
        for each in info.found
        for at, gold in enumerate(each.gold)
        if each.differs[at]
    ]
    return pd.DataFrame(rows)


SENTENCES = Part(
    "compare-sentences",
    "Sentences labelled differently",
    "Dev sentences on which predictions differ: the correct label first, in parentheses the trials that predict it.",
    prepare_sentences,
    sentences_table,
    why_empty=lambda info: info.why_not,
    body=sentences_body,
    of_store=True,
)
