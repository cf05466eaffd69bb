"""Which settings are unstable, and the expected best score of n trials."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.cells import completed_of, one_device, setting_columns, shown_cells
from dashboards.views.drawing import cell_colour, cell_name, cell_symbol, numbers, with_note
from dashboards.views.part import Part
from dashboards.views.theme import DASHES, Figure, Look, axis, layout
from orchestrator.analysis.convergence import BIAS_NOTE, expected_best
from orchestrator.analysis.stability import instability
from orchestrator.analysis.trial_frame import TRAINING_COST
from orchestrator.config.quantities import counted

MAX_BUDGETS = 40


# --- Stability


class Stability(NamedTuple):
    """How often training fails.

    Attributes:
        table: One row per cell, by train size and depth: `analysis.stability.instability`, `freeze`,
            `n_layers`, `train_size`.
    """

    table: pd.DataFrame


def prepare_stability(selection: Selection) -> Stability:
    """Over all trials that have ended."""
    trials = selection.trials
    keys = ["cell", "freeze", "n_layers", "train_size", "depth", "strategy", "embeddings"]
    order = ["train_size", "depth", "strategy", "embeddings"]
    table = instability(trials).merge(trials.drop_duplicates("cell")[keys], on="cell").sort_values(order)
    return Stability(table.reset_index(drop=True))


def stability_table(info: Stability) -> pd.DataFrame:
    """One row per cell."""
    t = info.table
    return pd.DataFrame(
        {
            **setting_columns(t),
            "ended": t["n"],
            "broken": t["broken"],
            "collapsed": t["collapsed"].where(t["judged"] > 0).astype("Int64"),
            "unstable (%)": (100 * t["share"]).round(2),
            "95 % from (%)": (100 * t["low"]).round(2),
            "95 % to (%)": (100 * t["high"]).round(2),
            "not counted": t["excluded"],
        }
    )


# --- Expected best


class Expected(NamedTuple):
    """The expected best score of n trials.

    Attributes:
        table: One row per cell and budget: `cell`, `budget` (trials), `x`, `expected`, `unbiased` (0..1).
        cells: `cells.KEYS` and `n`.
        x_title: With its unit.
    """

    table: pd.DataFrame
    cells: pd.DataFrame
    x_title: str
    value_name: str
    note: str


def prepare_expected(selection: Selection) -> Expected:
    """For each cell over its completed seeds; on the axis `train_s` a trial counts as the cell's mean training time."""
    shown = shown_cells(selection.trials)
    done = completed_of(selection.trials, shown.table)
    done = done[done[selection.column].notna()]
    timed = selection.query.axis == "train_s"
    alone = one_device(done, TRAINING_COST if timed else "trainable_params")
    rows = alone.trials
    parts = [_expected(cell, own, selection.column, timed=timed) for cell, own in rows.groupby("cell", sort=False)]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"cell": []})
    cells = shown.table.assign(n=shown.table["cell"].map(rows["cell"].value_counts()).fillna(0).astype(int))
    title = "training time of all trials (s)" if timed else "trials"
    note = " ".join(filter(None, [shown.note, alone.note]))
    return Expected(table, cells[cells["n"] > 0].reset_index(drop=True), title, selection.value_name, note)


def _expected(cell: object, rows: pd.DataFrame, column: str, *, timed: bool) -> pd.DataFrame:
    n = len(rows)
    budgets = np.unique(np.linspace(1, n, min(n, MAX_BUDGETS)).round().astype(int)).tolist()
    found = expected_best(rows[column].to_numpy(dtype=np.float64), budgets)
    each = float(rows[TRAINING_COST].mean()) if timed else 1.0
    return found.assign(cell=cell, x=found["budget"] * each)


def why_no_expected(info: Expected) -> str:
    """Why there is nothing to show; empty if there is something."""
    if not len(info.table):
        return f"No completed trial can be shown. {info.note}".strip()
    return "" if (info.cells["n"] > 1).any() else "This needs a setting with two or more completed seeds."


def draw_expected(info: Expected, look: Look) -> Figure:
    """A line per cell: the dash tells train sizes apart, colour and symbol what is frozen."""
    sizes = sorted(info.cells["train_size"].unique(), reverse=True)
    lines = dict(iter(info.table.groupby("cell", sort=False)))
    data = [
        _line(lines[row.cell], row, look, cell_name(row, several=len(sizes) > 1), sizes.index(row.train_size))
        for row in info.cells.itertuples()
    ]
    x, y = axis(info.x_title, rangemode="tozero"), axis(f"expected best {info.value_name} (%)")
    return with_note({"data": data, "layout": layout(look, x=x, y=y, height=420)}, look, info.note)


def _line(rows: pd.DataFrame, row: Any, look: Look, words: str, size: int) -> dict[str, Any]:
    colour = cell_colour(look, row)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": words,
        "x": numbers(rows["x"]),
        "y": numbers(rows["unbiased"], 100),
        "customdata": numbers(rows["budget"]),
        "line": {"color": colour, "dash": DASHES[size % len(DASHES)], "width": 2},
        "marker": {"symbol": cell_symbol(look, row), "size": 6, "color": colour},
        "hovertemplate": f"%{{y:.3f}} % from %{{customdata}} of {counted(int(row.n), 'trial')}<extra>{words}</extra>",
    }


def expected_table(info: Expected) -> pd.DataFrame:
    """One row per cell and budget."""
    both = info.table.merge(info.cells[["cell", "freeze", "n_layers", "train_size"]], on="cell")
    return pd.DataFrame(
        {
            **setting_columns(both),
            "budget (trials)": both["budget"],
            **({} if info.x_title == "trials" else {info.x_title: both["x"].round(3)}),
            "expected best, without replacement (%)": (100 * both["unbiased"]).round(4),
            "expected best, with replacement (%)": (100 * both["expected"]).round(4),
        }
    )


STABILITY = Part(
    "depth-stability",
    "Failed trainings",
    "How many trials of each setting broke, or collapsed.",
    prepare_stability,
    stability_table,
    method="Unstable: trials that diverged, ran out of memory or failed (broken), or completed at or below the "
    "best constant prediction or without a fall of the training loss (collapsed); exact 95 % interval (Clopper and "
    "Pearson). Lost, unavailable and pruned trials are not counted.",
)
EXPECTED = Part(
    "factors-expected",
    "Expected best score of n trials",
    "The best score to expect from n trials of a setting that differ only in their seed.",
    prepare_expected,
    expected_table,
    draw_expected,
    why_no_expected,
    method="Seeds are sampled without replacement; the table also has the estimate with replacement (Dodge et al. "
    f"2019). {BIAS_NOTE}",
)
