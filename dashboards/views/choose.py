"""Choose: how many layers do I freeze? One answer per train size, and the figure behind it."""

from __future__ import annotations

from typing import Any, NamedTuple

import dash_mantine_components as dmc
import pandas as pd

from dashboards.data.frames import Snapshot
from dashboards.data.selection import Selection
from dashboards.views import non_inferiority
from dashboards.views.drawing import (
    count,
    freeze_name,
)
from dashboards.views.part import Part, why_empty
from dashboards.views.recommendation import ERROR, recommended
from dashboards.views.view import SHARED_CONTROLS, View
from trials.freeze.strategies import FREEZE_STRATEGIES, possible_depths
from trials.settings import FreezeSpec

MAX_SIZES = 6  # each needs tests of its own


class SizeAnswer(NamedTuple):
    """What to freeze at one train size.

    Attributes:
        train_size: Sentences or texts.
        decided: Whether anything is recommended.
        verdict: `decided`, or `not decidable yet, about 4 more seeds needed`.
        sentence: The answer with its numbers.
        freeze: Label of what is recommended; empty if nothing is.
        runner_up: Label of the next best setting or, if nothing is recommended, of the one most worth further seeds.
        further_seeds: About how many more seeds would decide; 0 if none are needed, None if more are unlikely to help.
        snippet: The YAML that freezes so; empty if nothing is recommended.
    """

    train_size: int
    decided: bool
    verdict: str
    sentence: str
    freeze: str
    runner_up: str
    further_seeds: int | None
    snippet: str


class Answers(NamedTuple):
    """The answers of a selection.

    Attributes:
        answers: The largest train size first.
        note: What is left out; empty if nothing is.
    """

    answers: tuple[SizeAnswer, ...]
    note: str


def prepare_answers(selection: Selection) -> Answers:
    """An answer for each train size, or for the largest if there are many."""
    sizes, note = _sizes(selection)
    return Answers(tuple(_answer(selection, size) for size in sizes), note)


def _sizes(selection: Selection) -> tuple[list[int], str]:
    sizes = sorted(selection.trials["train_size"].unique().tolist(), reverse=True)
    if len(sizes) <= MAX_SIZES:
        return sizes, ""
    note = f"The {MAX_SIZES} largest of {len(sizes)} train sizes are answered; select others above."
    return sizes[:MAX_SIZES], note


def _answer(selection: Selection, size: int) -> SizeAnswer:
    rows = selection.trials[selection.trials["train_size"] == size]
    try:
        found = recommended(selection, rows)
    except ValueError as error:  # two baselines, or two trials with one seed
        return SizeAnswer(size, False, "not decidable", f"Not decidable: {error}.", "", "", None, "")
    labels = rows.drop_duplicates("cell").set_index("cell")["freeze"]
    return SizeAnswer(
        train_size=size,
        decided=found.decided,
        verdict="decided" if found.decided else _undecided(found.further_seeds),
        sentence=found.sentence,
        freeze="" if found.cell is None else str(labels[found.cell]),
        runner_up="" if found.runner_up is None else str(labels[found.runner_up]),
        further_seeds=found.further_seeds,
        snippet="" if found.cell is None else _snippet(selection.snapshot, found.cell),
    )


def _undecided(seeds: int | None) -> str:
    if seeds is None:
        return "not decidable"
    return f"not decidable yet, about {count(seeds, 'more seed')} needed"


def _snippet(snapshot: Snapshot, cell: str) -> str:
    spec = snapshot.specs.get(cell)
    return "" if spec is None else freeze_yaml(spec.freeze, spec.model.n_layers)


def freeze_yaml(freeze: FreezeSpec, n_layers: int) -> str:
    """The key `trial` of a sweep file that freezes so."""
    depth = f", depth: {freeze.depth}" if freeze.strategy in FREEZE_STRATEGIES else f", layers: {list(freeze.layers)}"
    if freeze.strategy in FREEZE_STRATEGIES and len(possible_depths(freeze.strategy, n_layers)) == 1:
        depth = ""
    embeddings = ", embeddings: true" if freeze.embeddings else ""
    bare = freeze.strategy if not depth + embeddings else f"{{strategy: {freeze.strategy}{depth}{embeddings}}}"
    return f"trial:\n  freeze: {bare}\n"


def answers_table(info: Answers) -> pd.DataFrame:
    """One row per train size."""
    return pd.DataFrame(
        {
            "train size (sentences)": [answer.train_size for answer in info.answers],
            "verdict": [answer.verdict for answer in info.answers],
            "freeze": [freeze_name(answer.freeze) for answer in info.answers],
            "answer": [answer.sentence for answer in info.answers],
            "next best": [freeze_name(answer.runner_up) for answer in info.answers],
            "further seeds": pd.Series([answer.further_seeds for answer in info.answers], dtype=object),
            "YAML snippet": [answer.snippet for answer in info.answers],
        }
    )


ANSWER = Part(
    "choose-answer",
    "What to freeze",
    "The setting that saves most among those shown to lose no more than the tolerance, for each train size.",
    prepare_answers,
    answers_table,
    method=f"The chance that a recommended setting truly loses more than the tolerance is at most {100 * ERROR:g} %.",
)


def answer_cards(selection: Selection) -> Any:
    """The answer at each train size, with the YAML that freezes so and the second choice."""
    if why_empty(selection):
        return None
    cards = []
    for answer in prepare_answers(selection).answers:
        found = f"freeze {freeze_name(answer.freeze)}" if answer.decided else answer.verdict
        lines = [dmc.Text(answer.sentence)]
        if answer.runner_up:
            label = "Second choice" if answer.decided else "Most worth more seeds"
            lines.append(dmc.Text(f"{label}: {freeze_name(answer.runner_up)}.", size="sm"))
        if answer.snippet:
            lines.append(dmc.Code(answer.snippet, block=True))
        title, colour = f"Train size {answer.train_size:,}: {found}", "green" if answer.decided else "yellow"
        cards.append(dmc.Alert(dmc.Stack(lines, gap="xs"), title=title, color=colour, variant="outline", mb="sm"))
    return cards


VIEW = View(
    "/choose",
    "Choose",
    "How many layers do I freeze?",
    (ANSWER, non_inferiority.FOREST),
    (*SHARED_CONTROLS, "tolerance", "cost", "budget"),
    content=answer_cards,
)
