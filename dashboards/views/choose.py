"""Choose: how many layers do I freeze? One answer per train size, and the figure behind it."""

from __future__ import annotations

from typing import Any, NamedTuple

import dash_mantine_components as dmc
import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views import non_inferiority
from dashboards.views.kit.answers import answers_of, cards, headline
from dashboards.views.kit.components import frame_table
from dashboards.views.kit.drawing import freeze_column
from dashboards.views.kit.part import SHARED_CONTROLS, Part, View, why_empty
from orchestrator.analysis.answer import Answer
from orchestrator.analysis.decision_plan import ERROR
from orchestrator.analysis.wording import NO_CANDIDATES

MAX_SIZES = 6  # each needs tests of its own


class SizeAnswers(NamedTuple):
    """The answers of a selection.

    Attributes:
        answers: The largest train size first.
    """

    answers: tuple[Answer, ...]
    note: str


def prepare_answers(selection: Selection) -> SizeAnswers:
    """An answer for each train size, or for the largest if there are many."""
    sizes, note = _sizes(selection)
    try:
        return SizeAnswers(tuple(answers_of(selection, sizes)), note)
    except ValueError as error:
        return SizeAnswers((), f"No answer: {error}.")


def _sizes(selection: Selection) -> tuple[list[int], str]:
    sizes = sorted(selection.trials["train_size"].unique().tolist(), reverse=True)
    if len(sizes) <= MAX_SIZES:
        return sizes, ""
    note = f"The {MAX_SIZES} largest of {len(sizes)} train sizes are answered; select others above."
    return sizes[:MAX_SIZES], note


def _settings(info: SizeAnswers, which: str) -> tuple[pd.Series, pd.Series]:
    """Labels and numbers of layers of the settings that an attribute of the answers names."""
    labels = pd.Series([getattr(answer, which) for answer in info.answers], dtype=object)
    return labels, pd.Series([answer.n_layers for answer in info.answers])


def answers_table(info: SizeAnswers) -> pd.DataFrame:
    """One row per train size."""
    return pd.DataFrame(
        {
            "train size (sentences)": [answer.train_size for answer in info.answers],
            "verdict": [headline(answer) for answer in info.answers],
            "freeze": freeze_column(*_settings(info, "freeze")),
            "loss (points)": [answer.loss for answer in info.answers],
            "from (points)": [answer.low for answer in info.answers],
            "to (points)": [answer.high for answer in info.answers],
            "next best": freeze_column(*_settings(info, "runner_up")),
            "further seeds": pd.Series([answer.further_seeds for answer in info.answers], dtype=object),
            "answer": [answer.sentence for answer in info.answers],
            "YAML snippet": [answer.yaml for answer in info.answers],
        }
    )


def answers_body(info: SizeAnswers) -> Any:
    """The table without what the cards above it say in full, which would make it wider than any screen."""
    return frame_table(answers_table(info).drop(columns=["answer", "YAML snippet"]))


ANSWER = Part(
    "choose-answer",
    "What to freeze",
    "The setting that saves most among those shown to lose no more than the tolerance, for each train size.",
    prepare_answers,
    answers_table,
    why_empty=lambda info: "" if info.answers else info.note or NO_CANDIDATES,
    body=answers_body,
    method=f"The chance that a recommended setting truly loses more than the tolerance is at most {100 * ERROR:g} %.",
)


def answer_cards(selection: Selection) -> Any:
    """The answer at each train size, by the tolerance, cost and budget of the page."""
    if why_empty(selection) or selection.sweep is None:
        return None
    info = prepare_answers(selection)
    found = cards(info.answers, selection.sweep, selection.snapshot.address)
    return dmc.Stack([found, *([dmc.Text(info.note, size="sm")] if info.note else [])], gap="xs")


VIEW = View(
    "/choose",
    "Choose",
    "How many layers do I freeze?",
    (ANSWER, non_inferiority.FOREST),
    (*SHARED_CONTROLS, "tolerance", "cost", "budget"),
    content=answer_cards,
)
