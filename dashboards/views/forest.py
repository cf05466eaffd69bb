"""The difference of each setting to its baseline, paired by seed."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.cells import KEYS, setting_columns
from dashboards.views.drawing import Diamonds, cell_name, forest_plot, with_note
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look
from orchestrator.analysis.paired import differences

MAX_EXACT = 60  # exact tests of more cells take seconds
MAX_ROWS = 80  # of the figure
NO_PAIRS = "No trial has a completed baseline with the same seed. Run the baseline (freeze: none)."


class Forest(NamedTuple):
    """Differences to the baseline.

    Attributes:
        table: One row per cell: the columns of `analysis.paired.differences` and `cells.KEYS`.
        value_name: Name of the score.
    """

    table: pd.DataFrame
    value_name: str


def prepare_forest(selection: Selection) -> Forest:
    """Differences of every cell that has a baseline."""
    trials = selection.trials
    cells = trials.drop_duplicates("cell")[KEYS]
    few = len(cells) <= MAX_EXACT
    found = differences(trials, selection.column, exact="all" if few else ())
    new = [name for name in KEYS if name == "cell" or name not in found]
    table = found.merge(cells[new], on="cell").sort_values(["train_size", "depth", "strategy", "embeddings"])
    return Forest(table.reset_index(drop=True), selection.value_name)


def why_no_forest(info: Forest) -> str:
    """Why there is no difference to show; empty if there is one."""
    if not len(info.table):
        return "Only the baseline is here, so there is nothing to compare with it."
    return "" if (info.table["n_pairs"] > 0).any() else NO_PAIRS


def draw_forest(info: Forest, look: Look) -> Figure:
    """Points with intervals; hollow if the difference is not significant."""
    paired = info.table[info.table["n_pairs"] > 0]
    table = paired[-MAX_ROWS:]
    labels = [f"{cell_name(row, several=True)} (n={row.n_pairs})" for row in table.itertuples()]
    half = table["n_pairs"] >= 2
    marks = Diamonds(
        labels,
        table["decided"].tolist(),
        [look.depth(row.depth, row.n_layers) for row in table.itertuples()],
        [[label, verdict] for label, verdict in zip(labels, table["verdict"], strict=True)],
        "%{x:+.2f} points<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
    )
    drawn = table.assign(low=table["low"].where(half), high=table["high"].where(half))
    left_out = f"The {MAX_ROWS} of {len(paired)} settings with the largest train sizes; the table has all."
    figure = forest_plot(drawn, marks, look, f"{info.value_name} minus baseline (points)")
    return with_note(figure, look, left_out if len(paired) > MAX_ROWS else "")


def forest_table(info: Forest) -> pd.DataFrame:
    """One row per setting with all tests."""
    t = info.table
    return pd.DataFrame(
        {
            **setting_columns(t),
            "pairs": t["n_pairs"],
            "difference (points)": (100 * t["mean"]).round(4),
            "95 % from (points)": (100 * t["low"]).round(4),
            "95 % to (points)": (100 * t["high"]).round(4),
            "p (t)": t["p_t"].round(5),
            "p (Holm)": t["p_holm"].round(5),
            "p (permutation)": t["p_permutation"].round(5),
            "p (Wilcoxon)": t["p_wilcoxon"].round(5),
            "effect (d_z)": t["effect"].round(3),
            "further seeds": t["further_seeds"].astype(object).where(t["further_seeds"].notna(), None),
            "verdict": t["verdict"],
        }
    )


FOREST = Part(
    "depth-forest",
    "Difference to the baseline",
    "What each setting gains or loses against training everything; filled diamonds are significant at 5 %.",
    prepare_forest,
    forest_table,
    draw_forest,
    why_no_forest,
    method="Each trial minus the baseline trial with the same seed and train subset; mean and Student's 95 % interval. "
    "Significance is that of the paired t test after Holm's correction over the settings of one train size.",
)
