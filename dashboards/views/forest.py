"""The difference of each setting to its baseline, paired by seed."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from dashboards.data.contributions import trials_with_sentences
from dashboards.data.selection import Selection
from dashboards.views.cells import KEYS, setting_columns
from dashboards.views.drawing import Diamonds, cell_name, forest_plot, with_note
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look
from orchestrator.analysis.decided import loss_table

MAX_ROWS = 80  # of the figure
NO_PAIRS = "No trial has a completed baseline with the same seed. Run the baseline (freeze: none)."


class Forest(NamedTuple):
    """Losses against the baseline.

    Attributes:
        table: One row per cell: the columns of `decided.loss_table` and `cells.KEYS`.
    """

    table: pd.DataFrame
    value_name: str


def prepare_forest(selection: Selection) -> Forest:
    """Losses of every cell that has a baseline."""
    trials = selection.trials
    cells = trials.drop_duplicates("cell")[KEYS]
    found = loss_table(trials_with_sentences(selection.of_questions), selection.column, selection.plan)
    new = [name for name in KEYS if name == "cell" or name not in found]
    table = found.merge(cells[new], on="cell").sort_values(["train_size", "depth", "strategy", "embeddings"])
    return Forest(table.reset_index(drop=True), selection.value_name)


def why_no_forest(info: Forest) -> str:
    """Why there is no difference to show; empty if there is one."""
    if not len(info.table):
        return "Only the baseline is here, so there is nothing to compare with it."
    return "" if (info.table["n_pairs"] > 0).any() else NO_PAIRS


def draw_forest(info: Forest, look: Look) -> Figure:
    """Points with intervals; filled if the interval that decides excludes zero."""
    paired = info.table[info.table["n_pairs"] > 0]
    table = paired[-MAX_ROWS:]
    several = info.table["train_size"].nunique() > 1
    labels = [f"{cell_name(row, several=several)} (n={row.n_pairs})" for row in table.itertuples()]
    marks = Diamonds(
        labels,
        table["difference"].isin(["worse", "better"]).tolist(),
        [look.depth(row.depth, row.n_layers) for row in table.itertuples()],
        [[label, verdict] for label, verdict in zip(labels, _words(table), strict=True)],
        "%{x:+.2f} points<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
    )
    left_out = f"The {MAX_ROWS} of {len(paired)} settings with the largest train sizes; the table has all."
    figure = forest_plot(table, marks, look, f"loss of {info.value_name} (points)")
    return with_note(figure, look, left_out if len(paired) > MAX_ROWS else "")


def _words(table: pd.DataFrame) -> list[str]:
    """What each interval says of the baseline; why there is none."""
    return [why or said for why, said in zip(table["why_none"], table["difference"], strict=True)]


def forest_table(info: Forest) -> pd.DataFrame:
    """One row per setting with all tests."""
    t = info.table
    return pd.DataFrame(
        {
            **setting_columns(t),
            "pairs": t["n_pairs"],
            "loss (points)": (100 * t["loss"]).round(4),
            "from (points)": (100 * t["low"]).round(4),
            "to (points)": (100 * t["high"]).round(4),
            "correction": t["method"],
            "median (points)": (100 * t["median"]).round(4),
            "dev sentences": t["n_sentences"].astype(object).where(t["n_sentences"].notna(), None),
            "verdict": _words(t),
        }
    )


FOREST = Part(
    "depth-forest",
    "Loss against the baseline",
    "What each setting loses against training everything; filled diamonds are shown to differ.",
    prepare_forest,
    forest_table,
    draw_forest,
    why_no_forest,
    method="The baseline trial minus each trial with the same seed and train subset: positive is worse. The line "
    "is the interval over seeds and dev sentences (over seeds alone where the contributions of sentences were not "
    "recorded) that decides: each end holds with chance 95 %, for all settings of one train size together (max-t) and at every "
    "look from 3 seeds on. A difference is shown where it excludes zero.",
)
