"""The sentences of dev that the picked trials label differently."""

from __future__ import annotations

from typing import Any, NamedTuple

import dash_mantine_components as dmc
import pandas as pd
from dash import html

from dashboards.data.predictions import Disagreement, disagreements
from dashboards.data.selection import Selection
from dashboards.views.kit.components import marked
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.picked import FEWEST, Picks, to_compare
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


_STORE_THEM = "Set `predictions: all` in the sweep file to store them."


def prepare_sentences(selection: Selection) -> Sentences:
    """Of the trials whose predictions are stored."""
    picks = to_compare(selection)
    try:
        differing, n, without = disagreements(selection.snapshot, picks.trials["trial_id"].tolist(), "dev")
    except StoreError as error:
        raise EmptyPartError(str(error)) from error
    kept = picks._replace(trials=picks.trials[~picks.trials["trial_id"].isin(without)])
    absent = ", ".join(str(number) for number in picks.trials["number"][picks.trials["trial_id"].isin(without)])
    note = f"No predictions are stored of trial {absent}. {_STORE_THEM}" if without else ""
    if len(kept.trials) < FEWEST:
        raise EmptyPartError(f"Predictions can be compared where two trials have them. {note}")
    if not n:
        raise EmptyPartError(
            "These trials have no dev sentence in common: pick trials of one corpus on the page Trials."
        )
    if not differing:
        raise EmptyPartError(f"No difference in {counted(n, 'sentence')} of dev. {note}".strip())
    return Sentences(kept, sorted(differing, key=lambda sentence: (-sum(sentence.differs), sentence.number)), n, note)


def sentences_body(info: Sentences) -> Any:
    """The first sentences; words whose labels differ are marked, with what each trial says."""
    numbers_of = info.picks.trials["number"].tolist()
    right = [
        f"trial {number} has {sum(_right(sentence, at) for sentence in info.found):,}"
        for at, number in enumerate(numbers_of)
    ]
    n_words = sum(sum(sentence.differs) for sentence in info.found)
    head = (
        f"{len(info.found):,} of {counted(info.n, 'sentence')} of dev are labelled differently, in "
        f"{counted(n_words, 'word')}; of these words, {', '.join(right)} right."
    )
    shown = info.found[:MAX_SENTENCES]
    cut = f" The first {len(shown)} follow, those with most differing words first; the CSV has all."
    return html.Div(
        [
            dmc.Text(head + (cut if len(shown) < len(info.found) else "")),
            *([dmc.Text(info.note)] if info.note else []),
            *(_marked(sentence, numbers_of) for sentence in shown),
        ]
    )


def _right(sentence: Disagreement, at: int) -> int:
    return sum(
        differs and label == gold
        for differs, label, gold in zip(sentence.differs, sentence.predicted[at], sentence.gold, strict=True)
    )


def _marked(sentence: Disagreement, numbers_of: list[int]) -> Any:
    """A sentence; a mark says the correct label, then others, each with the numbers of the trials that predict it."""
    if len(sentence.words) != len(sentence.gold):  # a text with one label
        return html.P(
            [" / ".join(sentence.words), " ", _mark("", sentence, 0, numbers_of)], className="sentence", dir="auto"
        )
    parts: list[Any] = []
    for at, (word, differs) in enumerate(zip(sentence.words, sentence.differs, strict=True)):
        parts += [_mark(word, sentence, at, numbers_of) if differs else word, " "]
    return html.P(parts, className="sentence", dir="auto")


def _mark(word: str, sentence: Disagreement, at: int, numbers_of: list[int]) -> Any:
    by_label: dict[str, list[str]] = {sentence.gold[at]: []}
    for number, labels in zip(numbers_of, sentence.predicted, strict=True):
        by_label.setdefault(labels[at] or "nothing", []).append(str(number))
    remark = ", ".join(f"{label} ({' '.join(trials) or 'none'})" for label, trials in by_label.items())
    found_mark = marked(word, remark)
    found_mark.style = {"background": "transparent", "color": "inherit"}  # so many marks would glare
    return found_mark


def sentences_table(info: Sentences) -> pd.DataFrame:
    """One row per word whose labels differ."""
    numbers_of = info.picks.trials["number"].tolist()
    rows = [
        {
            "sentence": sentence.number,
            "word": sentence.words[at] if len(sentence.words) == len(sentence.gold) else " / ".join(sentence.words),
            "gold": gold,
            **{
                f"trial {number}": labels[at] or ""
                for number, labels in zip(numbers_of, sentence.predicted, strict=True)
            },
        }
        for sentence in info.found
        for at, gold in enumerate(sentence.gold)
        if sentence.differs[at]
    ]
    return pd.DataFrame(rows)


SENTENCES = Part(
    "compare-sentences",
    "Sentences labelled differently",
    "Dev sentences on which predictions differ: the correct label first, in parentheses the trials that predict it.",
    prepare_sentences,
    sentences_table,
    body=lambda info, look: sentences_body(info),
    of_store=True,
)
