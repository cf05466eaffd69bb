"""Choose: how many layers do I freeze? One answer a train size, and the figure it rests on."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from dashboards.data.frames import Snapshot
from dashboards.data.selection import Selection
from dashboards.views import non_inferiority
from dashboards.views.part import Part
from dashboards.views.recommendation import ERROR, recommended
from trials.freeze.strategies import FREEZE_STRATEGIES, possible_depths
from trials.settings import FreezeSpec

MOST_SIZES = 6  # each takes tests of its own


class Answer(NamedTuple):
    """What to freeze at one train size.

    Attributes:
        train_size: Sentences or texts.
        decided: Whether anything is recommended.
        verdict: `decided`, or `not decidable: 4 more seeds`.
        sentence: The answer in words with its figures.
        freeze: Label of what is recommended; empty if nothing is.
        runner_up: Label of the next best, or if nothing is decided of what is most worth further seeds; or empty.
        further_seeds: About how many more would decide; 0 if none are needed, None if none are likely to.
        snippet: Of a sweep's file, what freezes so; empty if nothing is recommended.
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
        note: What is left out, in words.
    """

    answers: tuple[Answer, ...]
    note: str


def prepare_answers(selection: Selection) -> Answers:
    """An answer for each train size, of which only the largest are asked where there are many."""
    sizes, note = _sizes(selection)
    return Answers(tuple(_answer(selection, size) for size in sizes), note)


def _sizes(selection: Selection) -> tuple[list[int], str]:
    sizes = sorted(selection.trials["train_size"].unique().tolist(), reverse=True)
    if len(sizes) <= MOST_SIZES:
        return sizes, ""
    return sizes[
        :MOST_SIZES
    ], f"The {MOST_SIZES} largest of {len(sizes)} train sizes are answered; choose others above."


def _answer(selection: Selection, size: int) -> Answer:
    rows = selection.trials[selection.trials["train_size"] == size]
    try:
        found = recommended(selection, rows)
    except ValueError as error:  # of the rows: two baselines, or two trials of one seed
        return Answer(size, False, "not decidable", f"Not decidable: {error}.", "", "", None, "")
    labels = rows.drop_duplicates("cell").set_index("cell")["freeze"]
    return Answer(
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
    return f"not decidable: {seeds} more seed{'s' * (seeds != 1)}"


def _snippet(snapshot: Snapshot, cell: str) -> str:
    known = snapshot.cells.get(cell)
    return "" if known is None else freeze_yaml(known.spec.freeze, known.spec.model.n_layers)


def freeze_yaml(freeze: FreezeSpec, n_layers: int) -> str:
    """What to write in a sweep's file under `trial`."""
    depth = f", depth: {freeze.depth}" if freeze.strategy in FREEZE_STRATEGIES else f", layers: {list(freeze.layers)}"
    if freeze.strategy in FREEZE_STRATEGIES and len(possible_depths(freeze.strategy, n_layers)) == 1:
        depth = ""
    embeddings = ", embeddings: true" if freeze.embeddings else ""
    bare = freeze.strategy if not depth + embeddings else f"{{strategy: {freeze.strategy}{depth}{embeddings}}}"
    return f"trial:\n  freeze: {bare}\n"


def answers_table(info: Answers) -> pd.DataFrame:
    """A row a train size."""
    return pd.DataFrame(
        {
            "train size (sentences)": [answer.train_size for answer in info.answers],
            "verdict": [answer.verdict for answer in info.answers],
            "freeze": [answer.freeze for answer in info.answers],
            "answer": [answer.sentence for answer in info.answers],
            "runner-up": [answer.runner_up for answer in info.answers],
            "further seeds": pd.Series([answer.further_seeds for answer in info.answers], dtype=object),
            "of a sweep's file": [answer.snippet for answer in info.answers],
        }
    )


ANSWER = Part(
    "choose-answer",
    "What to freeze",
    "The cell that saves most among those that are shown to lose no more than the tolerance, for each train size; the "
    f"chance that a recommended cell truly loses more is at most {100 * ERROR:g} %. What to write in a sweep's file "
    "stands beside it.",
    prepare_answers,
    answers_table,
)
PARTS = (ANSWER, non_inferiority.FOREST)
