"""Which setting the view Tags compares with its baseline."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.drawing import freeze_name, short


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
    why_empty: str

    @property
    def caption(self) -> str:
        """Which two cells a figure compares."""
        return f"Frozen: {short(freeze_name(self.freeze))}, against the baseline; train size {self.train_size:,}."


def compared_cells(selection: Selection) -> ComparedCells:
    """The cell of the freeze that the query names, else the deepest, at the largest train size where it completed."""
    done = selection.completed
    cells = done[done["cell"] != done["baseline"]].drop_duplicates("cell")
    wanted = selection.query.freeze
    named = cells[cells["freeze"] == wanted]
    note = f"No trial with {short(wanted)!r} frozen has completed." if wanted and not len(named) else ""
    order = ["train_size", "depth", "embeddings", "freeze"]
    chosen = (named if len(named) else cells).sort_values(order, ascending=[False, False, False, True], kind="stable")
    if not len(chosen):
        return ComparedCells("", "", "", 0, 1, 0, done.iloc[:0], note, "Only the baseline has completed trials.")
    row = chosen.iloc[0]
    trials = done[done["cell"].isin([row["cell"], row["baseline"]])]
    has_baseline = (trials["cell"] == row["baseline"]).any()
    why = "" if has_baseline else "The baseline has no completed trial. Run it (freeze: none)."
    return ComparedCells(
        row["cell"], row["baseline"], row["freeze"], int(row["depth"]), int(row["n_layers"]), int(row["train_size"]),
        trials, note, why,
    )  # fmt: skip


def first_seeds(trials: pd.DataFrame, at_most: int) -> pd.DataFrame:
    """The trials of the lowest seeds; seeds that both cells have come first."""
    cells = trials.groupby("seed")["cell"].nunique()
    order = cells.reset_index().sort_values(["cell", "seed"], ascending=[False, True])["seed"].head(at_most)
    return trials[trials["seed"].isin(order)]
