"""Which setting the page Errors compares with its baseline: the one that the address names, else that of the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.kit.cards import answers_of_page
from dashboards.views.kit.labels import short
from dashboards.views.kit.part import EmptyPartError
from orchestrator.analysis.freeze_names import freeze_name


def at_answer(selection: Selection) -> Selection:
    """The selection with the setting that is recommended, or else that the answer speaks of, where none is named."""
    query, asked = selection.query, selection.asked
    if asked.freeze or selection.sweep is None:
        return selection
    here = asked.but(corpus=query.corpus, model=query.model, setup=query.setup)
    try:
        found = answers_of_page(replace(selection, asked=here, query=query.but(split="dev")), 1).answers
    except EmptyPartError:
        return selection
    about = next((answer.about for answer in found if answer.about in selection.options.get("freeze", ())), None)
    return selection if about is None else replace(selection, query=query.but(freeze=about))


class ComparedCells(NamedTuple):
    """A cell and its baseline.

    Attributes:
        depth, n_layers: Of the cell.
        trials: Completed trials of both.
    """

    cell: str
    baseline: str
    freeze: str
    depth: int
    n_layers: int
    train_size: int
    trials: pd.DataFrame
    note: str

    @property
    def name(self) -> str:
        """What the cell freezes, spelled out."""
        return freeze_name(self.freeze, self.n_layers)

    @property
    def caption(self) -> str:
        """Which two cells a figure compares."""
        return f"Frozen: {short(self.name)}, against the baseline; train size {self.train_size:,}."


def compared_cells(selection: Selection) -> ComparedCells:
    """The cell of the freeze that `at_answer` selects, else the deepest, at the largest train size where it completed.

    Raises EmptyPartError.
    """
    selection = at_answer(selection)
    done = selection.completed
    cells = done[done["cell"] != done["baseline"]].drop_duplicates("cell")
    wanted = selection.query.freeze
    named = cells[cells["freeze"] == wanted]
    note = f"No trial with {short(wanted)!r} frozen has completed." if wanted and not len(named) else ""
    order = ["train_size", "depth", "embeddings", "freeze"]
    chosen = (named if len(named) else cells).sort_values(order, ascending=[False, False, False, True], kind="stable")
    if not len(chosen):
        raise EmptyPartError("Only the baseline has completed trials.")
    row = chosen.iloc[0]
    trials = done[done["cell"].isin([row["cell"], row["baseline"]])]
    if not (trials["cell"] == row["baseline"]).any():
        raise EmptyPartError("The baseline has no completed trial. Run it (freeze: none).")
    return ComparedCells(
        row["cell"], row["baseline"], row["freeze"], int(row["depth"]), int(row["n_layers"]), int(row["train_size"]),
        trials, note,
    )  # fmt: skip


def first_seeds(trials: pd.DataFrame, at_most: int) -> pd.DataFrame:
    """The trials of the lowest seeds; seeds that both cells have come first."""
    cells = trials.groupby("seed")["cell"].nunique()
    order = cells.reset_index().sort_values(["cell", "seed"], ascending=[False, True])["seed"].head(at_most)
    return trials[trials["seed"].isin(order)]
