"""The loss of each setting against the tolerance: tests of non-inferiority."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.page_query import COSTS
from dashboards.data.selection import Selection
from dashboards.views.cells import setting_columns, shown_cells
from dashboards.views.drawing import (
    Diamonds,
    cell_name,
    count,
    forest_plot,
    name,
    with_note,
)
from dashboards.views.forest import NO_PAIRS
from dashboards.views.part import Part
from dashboards.views.recommendation import ERROR, recommended
from dashboards.views.theme import Figure, Look
from orchestrator.analysis.paired import differences

MAX_SIZES = 2
MAX_ROWS = 60


class NonInferiority(NamedTuple):
    """The loss of each cell against the tolerance.

    Attributes:
        table: One row per cell but the baseline: `cell`, `freeze`, `train_size`, `depth`, `n_layers`, `n_pairs`,
            `mean`, `bound` (one-sided lower bound of the mean, at `level`), `level` (the error it was tested at),
            `tested` (False if its chain of tests ended before it), `shown` (to lose no more than the tolerance),
            `saved`, `in_budget`, `further_seeds`.
        tolerance: In points.
        value_name: Name of the score.
        cost: A key of `page_query.COSTS`.
        note: What is left out; empty if nothing is.
    """

    table: pd.DataFrame
    tolerance: float
    value_name: str
    cost: str
    note: str


def prepare_non_inferiority(selection: Selection) -> NonInferiority:
    """The candidates of each answer, with the bound that each was tested by."""
    shown = shown_cells(selection.trials, MAX_ROWS, sizes=MAX_SIZES)
    trials = selection.trials[selection.trials["cell"].isin(shown.table["cell"])]
    parts, wrong = [], list[str]()
    for size in sorted(shown.table["train_size"].unique().tolist(), reverse=True):
        rows = trials[trials["train_size"] == size]
        try:
            parts.append(_judged(rows, recommended(selection, rows).candidates, selection.column))
        except ValueError as error:
            wrong.append(f"Train size {size:,}: {error}.")
    keys = ["cell", "train_size", "depth", "n_layers"]
    found = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"cell": [], "n_pairs": []})
    table = shown.table[keys].merge(found, on="cell", how="inner")
    note = " ".join([shown.note, *wrong]).strip()
    return NonInferiority(table, selection.query.tolerance, selection.value_name, selection.query.cost, note)


def _judged(rows: pd.DataFrame, candidates: pd.DataFrame, column: str) -> pd.DataFrame:
    """Candidates with `bound`, at the level at which each was tested, or would have been tested first."""
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


def why_no_non_inferiority(info: NonInferiority) -> str:
    """Why there is nothing to show; empty if there is something."""
    if not len(info.table):
        return info.note or "Only the baseline is here, so there is nothing to choose from."
    return "" if (info.table["n_pairs"] > 0).any() else NO_PAIRS


def draw_non_inferiority(info: NonInferiority, look: Look) -> Figure:
    """Differences with their lower bounds; the tolerance is a band, and filled marks are shown to stay inside."""
    rows = info.table[info.table["n_pairs"] > 0]
    several = rows["train_size"].nunique() > 1
    names = [cell_name(row, several=several) for row in rows.itertuples()]
    marks = Diamonds(
        [f"{words} (n={n})" for words, n in zip(names, rows["n_pairs"], strict=True)],
        rows["shown"].tolist(),
        [look.depth(row.depth, row.n_layers) for row in rows.itertuples()],
        [[words, _verdict(row, info)] for words, row in zip(names, rows.itertuples(), strict=True)],
        "%{x:+.2f} points<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
    )
    drawn = rows.assign(low=rows["bound"], high=rows["mean"])
    title = f"{name(info.value_name)} minus baseline (points)"
    return with_note(forest_plot(drawn, marks, look, title, shapes=_band(info.tolerance)), look, info.note)


def _band(tolerance: float) -> list[dict[str, Any]]:
    across = {"yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    band = {"type": "rect", "x0": -tolerance, "x1": 0, "fillcolor": "rgba(0,158,115,0.15)", "line": {"width": 0}}
    line = {"color": "#009E73", "width": 2, "dash": "dash"}
    return [{**across, **band}, {**across, "type": "line", "x0": -tolerance, "x1": -tolerance, "line": line}]


def _verdict(row: Any, info: NonInferiority) -> str:
    limit = count(info.tolerance, "point")
    if row.shown:
        verdict = f"loses no more than {limit} (one-sided error {100 * row.level:.3g} %)"
    elif row.tested:
        verdict = f"not shown to lose at most {limit}"
    else:
        verdict = "not tested: a setting that freezes less has failed"
    seeds = 0 if row.shown or pd.isna(row.further_seeds) else int(row.further_seeds)
    more = f"; about {count(seeds, 'more seed')} needed" if seeds else ""
    saved = "" if pd.isna(row.saved) else f"<br>saves {100 * row.saved:.0f} % of the {COSTS[info.cost]}"
    return verdict + more + saved + ("" if row.in_budget else "<br>above the maximum cost")


def non_inferiority_table(info: NonInferiority) -> pd.DataFrame:
    """One row per cell."""
    t = info.table
    return pd.DataFrame(
        {
            **setting_columns(t),
            "pairs": t["n_pairs"],
            "difference (points)": (100 * t["mean"]).round(4),
            "lower bound (points)": (100 * t["bound"]).round(4),
            "one-sided error (%)": (100 * t["level"]).round(4),
            "passes": t["shown"],
            f"{COSTS[info.cost]} saved (%)": (100 * t["saved"]).round(2),
            "within maximum cost": t["in_budget"],
            "further seeds": t["further_seeds"].astype(object).where(t["further_seeds"].notna(), None),
        }
    )


FOREST = Part(
    "choose-forest",
    "Loss against the tolerance",
    "Filled diamonds are settings shown to lose no more than the tolerance (the shaded band).",
    prepare_non_inferiority,
    non_inferiority_table,
    draw_non_inferiority,
    why_no_non_inferiority,
    method="Difference to the baseline, paired by seed, with its one-sided lower bound (the lower of Student's and "
    "Hall's). The settings of a strategy are tested in the order of their depth, and testing stops at the first "
    "failure: a filled diamond has its bound inside or above the band, and so has every setting of its strategy that "
    "freezes less.",
)
