"""Savings: what does freezing save? The share of each cost that each setting saves of its baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd

from dashboards.data.selection import COSTS, Selection
from dashboards.views.kit.cells import Shown, hundredths, setting_columns, shown_cells
from dashboards.views.kit.drawing import (
    Figure,
    Look,
    axis,
    cell_name,
    interval_bars,
    name,
    numbers,
    rows_layout,
    vertical_line,
    with_note,
)
from dashboards.views.kit.part import ONLY_BASELINE, EmptyPartError, Part, View
from orchestrator.analysis.freeze_names import FreezeName
from orchestrator.analysis.savings import COSTS as SHOWN
from orchestrator.analysis.savings import savings
from orchestrator.config.quantities import amount
from trials.record import COSTS as RECORDED

_MARKS = (
    ("#56B4E9", "circle"), ("#0072B2", "square"), ("#D55E00", "diamond"), ("#009E73", "triangle-up"),
    ("#CC79A7", "cross"), ("#E69F00", "star"), ("#999999", "x"),
)  # fmt: skip
_LOOKS = dict(zip(SHOWN, cycle(_MARKS), strict=False))
# Title of a column with its unit, and how many of the store's units make one of that.
UNITS = {name: (column.label, column.unit) for name, column in RECORDED.items() if name in SHOWN} | {
    "training_flops": ("training TFLOPs", 1e12),
    "trainable_params": ("trainable parameters", 1.0),
    "training_cost_s": ("training time (s)", 1.0),
    "peak_memory_bytes": ("peak memory (GiB)", float(2**30)),
}
_STEP = 0.2  # between the costs of one setting, in rows
_LEAST = -100  # percent at which the axis ends: an interval of two pairs would press all else together


def prepare_savings(selection: Selection) -> Shown:
    """Shares of the baseline's costs that are saved, paired by seed: a row per cell but the baseline, and cost.

    Columns: those of `analysis.savings.savings`, `freeze`, `freeze_spec`, `n_layers`, `train_size`, `row` (of the cell,
    from the top).
    The note names the costs that no cell has, and why.
    """
    shown = shown_cells(selection.trials)
    trials = selection.trials[selection.trials["cell"].isin(shown.table["cell"])]
    shares = savings(trials, list(_LOOKS))
    others = shown.table[shown.table["cell"] != shown.table["baseline"]].reset_index(drop=True)
    described = others.assign(row=others.index)[["cell", "freeze", "freeze_spec", "n_layers", "train_size", "row"]]
    table = shares.merge(described, on="cell").sort_values(["row"], kind="stable", ignore_index=True)
    if not len(table):
        raise EmptyPartError(ONLY_BASELINE)
    absent = _absent(table)
    if table["saved"].isna().all():
        raise EmptyPartError(absent)
    return Shown(table, " ".join(filter(None, [absent, shown.note])))


def _absent(table: pd.DataFrame) -> str:
    absent = []
    for cost in _LOOKS:
        rows = table[table["cost"] == cost]
        if len(rows) and rows["saved"].isna().all():
            absent.append(f"{COSTS[cost]} ({', '.join(dict.fromkeys(rows['note']))})")
    return f"Not available: {', '.join(absent)}." if absent else ""


def draw_savings(info: Shown, look: Look) -> Figure:
    """A row per cell, a marker per cost, and the reason where a cost cannot be compared."""
    rows = info.table.drop_duplicates("row")
    several = rows["train_size"].nunique() > 1
    costs = set(info.table.loc[info.table["saved"].notna(), "cost"])
    shown = [cost for cost in _LOOKS if cost in costs]
    data = [_markers(cost, info.table, shown, look) for cost in shown]
    lacking = info.table[info.table["saved"].isna() & info.table["cost"].isin(shown)]
    if len(lacking):
        data.append(_reasons(lacking, shown, look))
    labels = [_label(row, look, several=several) for row in rows.itertuples()]
    x = axis("saved of the baseline (%)", autorangeoptions={"clipmin": _LEAST})
    drawn = rows_layout(look, x, labels, row_height=44, shapes=[vertical_line(look)])
    return with_note({"data": data, "layout": drawn}, look, info.note)


def _label(row: Any, look: Look, *, several: bool) -> str:
    """What a row freezes; on a phone its layer strip without the words, so that the marks have room."""
    frozen, label = FreezeName(row.freeze_spec, int(row.n_layers)), cell_name(row, several=several)
    return label.replace(f" {name(frozen)}", "") if look.narrow and frozen.squares else label


def _positions(rows: pd.DataFrame, shown: Sequence[str]) -> list[float | None]:
    place = np.array([shown.index(cost) for cost in rows["cost"]], dtype=np.float64)
    return numbers(rows["row"].to_numpy() + _STEP * (place - (len(shown) - 1) / 2))


def _markers(cost: str, table: pd.DataFrame, shown: Sequence[str], look: Look) -> dict[str, Any]:
    rows = table[(table["cost"] == cost) & table["saved"].notna()]
    colour, symbol = _LOOKS[cost]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": COSTS[cost],
        "x": numbers(rows["saved"], 100, 2),
        "y": _positions(rows, shown),
        "error_x": interval_bars(rows.rename(columns={"saved": "mean"}), look.muted, scale=100),
        "marker": {"symbol": symbol, "size": 10, "color": colour, "line": {"width": 1, "color": look.text}},
        "customdata": [[_basis(row)] for row in rows.itertuples()],
        "hovertemplate": f"%{{x:.1f}} % of the {COSTS[cost]} saved<br>%{{customdata[0]}}<extra></extra>",
    }


def _basis(row: Any) -> str:
    basis = amount(row.n_pairs, "pair") if row.n_pairs else "counted"
    return f"{basis}; {name(row.note)}" if row.note else basis


def _reasons(rows: pd.DataFrame, shown: Sequence[str], look: Look) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "text",
        "name": "not available",
        "showlegend": False,
        "x": [0.0] * len(rows),
        "y": _positions(rows, shown),
        "text": [f" {COSTS[row.cost]}: {name(row.note)}" for row in rows.itertuples()],
        "textposition": "middle right",
        "textfont": {"size": 11, "color": look.muted},
        "hoverinfo": "skip",
    }


def savings_table(info: Shown) -> pd.DataFrame:
    """One row per cell and `cost`: `pairs`, the share saved with its interval in percent, and a `note`."""
    t = info.table
    return pd.DataFrame(
        {
            **setting_columns(t),
            "cost": t["cost"].map(COSTS),
            "pairs": t["n_pairs"].astype("Int64").where(t["n_pairs"] > 0),  # counted costs need none
            **hundredths(t, saved="saved (%)", low="95 % from (%)", high="95 % to (%)"),
            "note": t["note"],
        }
    )


def costs_table(info: Shown) -> pd.DataFrame:
    """One row per cell with `setting_columns` and, for each cost that a trial has: its mean, the baseline's, and the
    share saved in percent.
    """
    first = info.table.drop_duplicates("row").set_index("row")
    table = pd.DataFrame(setting_columns(first))
    for cost, (title, unit) in ((cost, UNITS[cost]) for cost in SHOWN):
        rows = info.table[info.table["cost"] == cost].set_index("row")
        if rows["saved"].notna().any():
            table[title] = (rows["cost_mean"] / unit).round(4)
            table[f"baseline: {title}"] = (rows["baseline_mean"] / unit).round(4)
            table[f"{COSTS[cost]} saved (%)"] = (100 * rows["saved"]).round(4)
    return table.reset_index(drop=True)


_METHOD = (
    "Time, memory and energy are paired by seed; only pairs that ran on the same device with the same threads, share "
    "of the GPU and number of trials at the same time count. Student's 95 % interval on the logarithms of the ratios. "
    "Parameters and operations (FLOPs: the matrix products of the forward and backward passes, padding included) are "
    "counted. Training time is optimiser steps and the pass of the train split through the frozen layers, whichever "
    "trial computed it, without set-up and evaluation."
)
SAVINGS = Part(
    "cost-savings",
    "What freezing saves",
    "Share of the baseline's cost that each setting saves.",
    prepare_savings,
    savings_table,
    draw_savings,
    method=_METHOD,
)
TABLE = Part(
    "cost-table",
    "Costs and savings",
    "What each setting costs, what its baseline costs, and the share saved; means over the pairs.",
    prepare_savings,
    costs_table,
    method=_METHOD,
    on_demand="Costs and savings of each setting",
    detail=True,
)


VIEW = View(
    "/savings",
    "Savings",
    "What does freezing save?",
    (SAVINGS, TABLE),
    ("sweep", "corpus", "model", "setup", "size", "strategy", "embeddings"),
)
