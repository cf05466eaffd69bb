"""Which cell Tags sets beside its baseline."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.marks import short


class Beside(NamedTuple):
    """A cell and its baseline.

    Attributes:
        cell, baseline: Their ids.
        freeze: Label of the cell.
        depth, n_layers: Of the cell.
        train_size: Of both.
        trials: Completed trials of both.
        note: What could not be shown as asked, in words.
        why: Why nothing can be shown; else empty.
    """

    cell: str
    baseline: str
    freeze: str
    depth: int
    n_layers: int
    train_size: int
    trials: pd.DataFrame
    note: str
    why: str

    @property
    def words(self) -> str:
        """Which they are."""
        return f"{short(self.freeze)} beside the baseline, train size {self.train_size:,}."


def beside(selection: Selection) -> Beside:
    """The cell of the freeze that the query names, else the deepest, at the largest train size that has it complete."""
    done = selection.completed
    cells = done[done["cell"] != done["baseline"]].drop_duplicates("cell")
    named = cells[cells["freeze"] == selection.query.freeze]
    asked = selection.query.freeze
    note = f"There is no completed trial of {short(asked)!r} here." if asked and not len(named) else ""
    order = ["train_size", "depth", "embeddings", "freeze"]
    chosen = (named if len(named) else cells).sort_values(order, ascending=[False, False, False, True], kind="stable")
    if not len(chosen):
        return Beside("", "", "", 0, 1, 0, done.iloc[:0], note, "Only the baseline has completed trials here.")
    row = chosen.iloc[0]
    trials = done[done["cell"].isin([row["cell"], row["baseline"]])]
    has_baseline = (trials["cell"] == row["baseline"]).any()
    why = "" if has_baseline else "The baseline has no completed trial: run it (freeze: none)."
    return Beside(
        row["cell"], row["baseline"], row["freeze"], int(row["depth"]), int(row["n_layers"]), int(row["train_size"]),
        trials, note, why,
    )  # fmt: skip


def first_seeds(trials: pd.DataFrame, most: int) -> pd.DataFrame:
    """The trials of at most so many seeds, those that both cells have before others, then the lowest."""
    cells = trials.groupby("seed")["cell"].nunique()
    order = cells.reset_index().sort_values(["cell", "seed"], ascending=[False, True])["seed"].head(most)
    return trials[trials["seed"].isin(order)]
