"""What an answer rests on: each cell's loss against the tolerance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.page_query import COSTS
from dashboards.data.selection import Selection
from dashboards.views.marks import cell_words, few_cells, name, numbers, with_note
from dashboards.views.part import Part
from dashboards.views.recommendation import ERROR, recommended
from dashboards.views.theme import Figure, Look, axis, layout
from orchestrator.analysis.paired import differences

DRAWN_SIZES = 2
MOST_ROWS = 60


class Inferiority(NamedTuple):
    """Each cell's loss against the tolerance.

    Attributes:
        table: A row a non-baseline cell: `cell`, `freeze`, `train_size`, `depth`, `n_layers`, `n_pairs`, `mean`,
            `bound` (one-sided lower end of the mean, at `level`), `level` (the error it was tested at), `tested`
            (False where its chain ended before it), `shown` (loses no more than the tolerance), `saved`, `in_budget`,
            `further_seeds`.
        tolerance: In points.
        value_name: What is compared.
        cost: A key of `query.COSTS`.
        note: What is left out, in words.
    """

    table: pd.DataFrame
    tolerance: float
    value_name: str
    cost: str
    note: str


def prepare_inferiority(selection: Selection) -> Inferiority:
    """The candidates of each answer, with the bound that each was judged by."""
    few = few_cells(selection.trials, MOST_ROWS, sizes=DRAWN_SIZES)
    trials = selection.trials[selection.trials["cell"].isin(few.table["cell"])]
    parts, wrong = [], list[str]()
    for size in sorted(few.table["train_size"].unique().tolist(), reverse=True):
        rows = trials[trials["train_size"] == size]
        try:
            parts.append(_judged(rows, recommended(selection, rows).candidates, selection.column))
        except ValueError as error:
            wrong.append(f"Train size {size:,}: {error}.")
    keys = ["cell", "train_size", "depth", "n_layers"]
    found = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"cell": [], "n_pairs": []})
    table = few.table[keys].merge(found, on="cell", how="inner")
    note = " ".join([few.note, *wrong]).strip()
    return Inferiority(table, selection.query.tolerance, selection.value_name, selection.query.cost, note)


def _judged(rows: pd.DataFrame, candidates: pd.DataFrame, column: str) -> pd.DataFrame:
    """Candidates with `bound`: at the level at which each cell was tested, or would have been tested first."""
    tested = candidates["level"].notna()
    chains = max(1, candidates["chain"].nunique())
    levels = candidates["level"].fillna(ERROR / chains)
    bounds = pd.Series(np.nan, index=candidates["cell"])
    for level in levels.unique().tolist():
        found = differences(rows, column, level=1 - 2 * level).set_index("cell")["low_guarded"]
        cells = candidates.loc[levels == level, "cell"]
        bounds[cells] = found[cells].to_numpy()
    columns = ["cell", "freeze", "n_pairs", "mean", "shown", "saved", "in_budget", "further_seeds"]
    return candidates[columns].assign(bound=bounds.to_numpy(), level=levels, tested=tested)


def why_no_inferiority(info: Inferiority) -> str:
    """In words."""
    if not len(info.table):
        return info.note or "Only the baseline is here, so there is nothing to choose from."
    if not (info.table["n_pairs"] > 0).any():
        return "No trial has a completed baseline of the same seed: run the sweep's baseline (freeze: none)."
    return ""


def draw_inferiority(info: Inferiority, look: Look) -> Figure:
    """Points with the bound below them; the tolerance is a band, and a filled marker is shown to stay inside."""
    rows = info.table[info.table["n_pairs"] > 0]
    several = rows["train_size"].nunique() > 1
    trace = {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "name": "difference",
        "x": numbers(rows["mean"], 100),
        "y": list(range(len(rows))),
        "error_x": {
            "type": "data", "symmetric": False, "color": look.muted, "thickness": 1.5, "width": 4,
            "array": [0.0] * len(rows), "arrayminus": numbers(rows["mean"] - rows["bound"], 100),
        },
        "marker": {
            "symbol": ["diamond" if shown else "diamond-open" for shown in rows["shown"]],
            "size": 12, "color": [look.depth(row.depth, row.n_layers) for row in rows.itertuples()],
            "line": {"width": 1.5, "color": look.text},
        },
        "customdata": [[cell_words(row, several=several), _told(row, info)] for row in rows.itertuples()],
        "hovertemplate": "%{x:+.2f} points<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
    }  # fmt: skip
    words = [f"{cell_words(row, several=several)} (n={row.n_pairs})" for row in rows.itertuples()]
    y = {
        "tickvals": list(range(len(rows))), "ticktext": words, "range": [len(rows) - 0.5, -0.5], "automargin": True,
        "showgrid": False,
    }  # fmt: skip
    x = axis(f"{name(info.value_name)} minus the baseline's (points)")
    height = int(np.clip(110 + 26 * len(rows), 240, 1800))
    drawn = layout(look, x=x, y=y, height=height, shapes=_shapes(info.tolerance, look))
    return with_note({"data": [trace], "layout": drawn}, look, info.note)


def _shapes(tolerance: float, look: Look) -> list[dict[str, Any]]:
    across = {"yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    band = {"type": "rect", "x0": -tolerance, "x1": 0, "fillcolor": "rgba(0,158,115,0.15)", "line": {"width": 0}}
    edge = {
        "type": "line",
        "x0": -tolerance,
        "x1": -tolerance,
        "line": {"color": "#009E73", "width": 2, "dash": "dash"},
    }
    zero = {"type": "line", "x0": 0, "x1": 0, "line": {"color": look.text, "width": 1}}
    return [{**across, **shape} for shape in (band, edge, zero)]


def _told(row: Any, info: Inferiority) -> str:
    """The verdict on one cell."""
    limit = f"{info.tolerance:g} points"
    if row.shown:
        verdict = f"loses no more than {limit} (one-sided error {100 * row.level:.3g} %)"
    elif row.tested:
        verdict = f"not shown to lose at most {limit}"
    else:
        verdict = "not tested, as a cell that freezes less has failed"
    more = "" if row.shown or pd.isna(row.further_seeds) else f"; about {int(row.further_seeds)} more seeds"
    saved = "" if pd.isna(row.saved) else f"<br>saves {100 * row.saved:.0f} % of the {COSTS[info.cost]}"
    return verdict + more + saved + ("" if row.in_budget else "<br>beyond the budget")


def inferiority_table(info: Inferiority) -> pd.DataFrame:
    """A row a cell."""
    t = info.table
    return pd.DataFrame(
        {
            "train size (sentences)": t["train_size"],
            "frozen": t["freeze"],
            "pairs": t["n_pairs"],
            "difference (points)": (100 * t["mean"]).round(4),
            "lower bound (points)": (100 * t["bound"]).round(4),
            "one-sided error (%)": (100 * t["level"]).round(4),
            "passes": t["shown"],
            f"{COSTS[info.cost]} saved (%)": (100 * t["saved"]).round(2),
            "within budget": t["in_budget"],
            "further seeds": t["further_seeds"].astype(object).where(t["further_seeds"].notna(), None),
        }
    )


FOREST = Part(
    "choose-forest",
    "Loss against the tolerance",
    "Difference to the baseline, paired by seed, with the one-sided lower bound at the error that the cell was tested "
    "at (the lower of Student's and Hall's). The band is the tolerance; a filled marker has its bound inside or above "
    "it, and so has every cell of its strategy that freezes less.",
    prepare_inferiority,
    inferiority_table,
    draw_inferiority,
    why_no_inferiority,
)
