"""Each cell beside its baseline, paired by seed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.cells import percent
from dashboards.views.marks import with_note
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis, layout, zero_line
from orchestrator.analysis.paired import differences


class Forest(NamedTuple):
    """Each cell beside its baseline, paired by seed.

    Attributes:
        table: Rows of `analysis.paired.differences` with `freeze`, `train_size`, `depth`, `n_layers`, `strategy`.
    """

    table: pd.DataFrame
    value_name: str


MOST_EXACT = 60  # exact tests of more cells take seconds
MOST_ROWS = 80  # of the figure


def prepare_forest(selection: Selection) -> Forest:
    """Differences of every cell that has a baseline."""
    trials = selection.trials
    described = trials.drop_duplicates("cell")[
        ["cell", "freeze", "train_size", "depth", "n_layers", "strategy", "embeddings"]
    ]
    few = described["cell"].nunique() <= MOST_EXACT
    found = differences(trials, selection.column, exact="all" if few else ())
    table = found.merge(described, on="cell").sort_values(["train_size", "depth", "strategy", "embeddings"])
    return Forest(table.reset_index(drop=True), selection.value_name)


def why_no_forest(info: Forest) -> str:
    """In words."""
    if not len(info.table):
        return "Only the baseline is here, so there is nothing to compare with it."
    if not (info.table["n_pairs"] > 0).any():
        return "No trial has a completed baseline of the same seed: run the sweep's baseline (freeze: none)."
    return ""


def draw_forest(info: Forest, look: Look) -> Figure:
    """Points with intervals, zero drawn; hollow where the difference is not decided."""
    paired = info.table[info.table["n_pairs"] > 0]
    table = paired[-MOST_ROWS:]
    note = f"The {MOST_ROWS} of {len(paired)} cells with the largest train sizes; the table has all."
    words = [f"{r.freeze}, {r.train_size:,} (n={r.n_pairs})" for r in table.itertuples()]
    colours = [look.depth(r.depth, r.n_layers) for r in table.itertuples()]
    half = table["n_pairs"] >= 2
    data = {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "name": "difference",
        "x": percent(table["mean"]),
        "y": words,
        "error_x": {
            "type": "data", "symmetric": False, "color": look.muted, "thickness": 1.5, "width": 4,
            "array": percent((table["high"] - table["mean"]).where(half)),
            "arrayminus": percent((table["mean"] - table["low"]).where(half)),
        },
        "marker": {
            "symbol": ["diamond" if decided else "diamond-open" for decided in table["decided"]],
            "size": 11, "color": colours, "line": {"width": 1.5, "color": look.text},
        },
        "customdata": [[verdict] for verdict in table["verdict"]],
        "hovertemplate": "%{x:+.2f} points<br>%{customdata[0]}<extra>%{y}</extra>",
    }  # fmt: skip
    x = axis(f"{info.value_name} minus the baseline's (points)")
    y = {"autorange": "reversed", "automargin": True, "showgrid": False, "type": "category"}
    height = int(np.clip(90 + 24 * len(table), 220, 2000))
    drawn = layout(look, x=x, y=y, height=height, shapes=[zero_line(look)])
    drawn["margin"] = {**drawn["margin"], "l": 12 + 7 * min(max(map(len, words)), 40)}  # else drawn twice
    return with_note({"data": [data], "layout": drawn}, look, note if len(paired) > MOST_ROWS else "")


def forest_table(info: Forest) -> pd.DataFrame:
    """A row a cell with all tests."""
    t = info.table
    return pd.DataFrame(
        {
            "train size (sentences)": t["train_size"],
            "frozen": t["freeze"],
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
    "Difference to the baseline, paired by seed",
    "Each trial minus the baseline's of the same seed and train subset; Student's 95 % interval. Filled: decided at "
    "5 % after Holm's correction over the cells of a train size.",
    prepare_forest,
    forest_table,
    draw_forest,
    why_no_forest,
)
