"""What each setting saves of its baseline's parameters, training time, memory and energy."""

from __future__ import annotations

from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.page_query import COSTS
from dashboards.data.selection import Selection
from dashboards.views.cells import setting_columns, shown_cells
from dashboards.views.drawing import cell_name, interval_bars, name, numbers, row_axis, with_note
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis, layout, vertical_line
from orchestrator.analysis.savings import COSTS as SHOWN
from orchestrator.analysis.savings import savings
from orchestrator.config.quantities import counted
from trials.record import COSTS as RECORDED

_MARKS = (
    ("#56B4E9", "circle"), ("#0072B2", "square"), ("#D55E00", "diamond"), ("#009E73", "triangle-up"),
    ("#CC79A7", "cross"), ("#E69F00", "star"), ("#999999", "x"),
)  # fmt: skip
_LOOKS = dict(zip(SHOWN, cycle(_MARKS), strict=False))
_STEP = 0.2  # between the costs of one setting, in rows


class Savings(NamedTuple):
    """Shares of the baseline's costs that are saved.

    Attributes:
        table: One row per cell but the baseline, and cost: the columns of `analysis.savings.savings`, `freeze`,
            `n_layers`, `train_size`, `row` (of the cell, from the top).
        absent: Which costs no cell has, and why; empty if there is none.
    """

    table: pd.DataFrame
    absent: str
    note: str


def prepare_savings(selection: Selection) -> Savings:
    """All costs, paired by seed."""
    shown = shown_cells(selection.trials)
    trials = selection.trials[selection.trials["cell"].isin(shown.table["cell"])]
    found = savings(trials, list(_LOOKS))
    others = shown.table[shown.table["cell"] != shown.table["baseline"]].reset_index(drop=True)
    described = others.assign(row=others.index)[["cell", "freeze", "n_layers", "train_size", "row"]]
    table = found.merge(described, on="cell").sort_values(["row"], kind="stable", ignore_index=True)
    return Savings(table, _absent(table), shown.note)


def _absent(table: pd.DataFrame) -> str:
    absent = []
    for cost in _LOOKS:
        rows = table[table["cost"] == cost]
        if len(rows) and rows["saved"].isna().all():
            absent.append(f"{COSTS[cost]}: {', '.join(dict.fromkeys(rows['note']))}")
    return f"Not available: {'; '.join(absent)}." if absent else ""


def why_no_savings(info: Savings) -> str:
    """Why there is no saving to show; empty if there is one."""
    if not len(info.table):
        return "Only the baseline is here, so there is nothing to compare with it."
    return "" if info.table["saved"].notna().any() else info.absent


def draw_savings(info: Savings, look: Look) -> Figure:
    """A row per cell, a marker per cost, and the reason where a cost cannot be compared."""
    rows = info.table.drop_duplicates("row")
    several = rows["train_size"].nunique() > 1
    data = [_markers(cost, info.table, look) for cost in _LOOKS]
    data = [trace for trace in data if trace["x"]]
    shown = set(info.table.loc[info.table["saved"].notna(), "cost"])
    lacking = info.table[info.table["saved"].isna() & info.table["cost"].isin(shown)]
    if len(lacking):
        data.append(_reasons(lacking, look))
    y = row_axis([cell_name(row, several=several) for row in rows.itertuples()])
    height = int(np.clip(140 + 44 * len(rows), 260, 1600))
    drawn = layout(look, x=axis("saved of the baseline (%)"), y=y, height=height, shapes=[vertical_line(look)])
    return with_note({"data": data, "layout": drawn}, look, info.absent, info.note)


def _at(rows: pd.DataFrame) -> list[float | None]:
    order = {cost: n for n, cost in enumerate(_LOOKS)}
    place = np.array([order[cost] for cost in rows["cost"]], dtype=np.float64)
    return numbers(rows["row"].to_numpy() + _STEP * (place - (len(_LOOKS) - 1) / 2))


def _markers(cost: str, table: pd.DataFrame, look: Look) -> dict[str, Any]:
    rows = table[(table["cost"] == cost) & table["saved"].notna()]
    colour, symbol = _LOOKS[cost]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": COSTS[cost],
        "x": numbers(rows["saved"], 100, 2),
        "y": _at(rows),
        "error_x": interval_bars(rows.rename(columns={"saved": "mean"}), look.muted, scale=100),
        "marker": {"symbol": symbol, "size": 10, "color": colour, "line": {"width": 1, "color": look.text}},
        "customdata": [[_basis(row)] for row in rows.itertuples()],
        "hovertemplate": f"%{{x:.1f}} % of the {COSTS[cost]} saved<br>%{{customdata[0]}}<extra></extra>",
    }


def _basis(row: Any) -> str:
    basis = counted(row.n_pairs, "pair") if row.n_pairs else "counted"
    return f"{basis}; {name(row.note)}" if row.note else basis


def _reasons(rows: pd.DataFrame, look: Look) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "text",
        "name": "not available",
        "showlegend": False,
        "x": [0.0] * len(rows),
        "y": _at(rows),
        "text": [f" {COSTS[row.cost]}: {name(row.note)}" for row in rows.itertuples()],
        "textposition": "middle right",
        "textfont": {"size": 11, "color": look.muted},
        "hoverinfo": "skip",
    }


def savings_table(info: Savings) -> pd.DataFrame:
    """One row per cell and cost."""
    t = info.table
    return pd.DataFrame(
        {
            **setting_columns(t),
            "cost": t["cost"].map(COSTS),
            "pairs": t["n_pairs"].astype("Int64").where(t["n_pairs"] > 0),  # counted costs need none
            "saved (%)": (100 * t["saved"]).round(3),
            "95 % from (%)": (100 * t["low"]).round(3),
            "95 % to (%)": (100 * t["high"]).round(3),
            "note": t["note"],
        }
    )


# Title of a column or axis with its unit, and how many of the store's units make one of that.
UNITS = {name: (column.label, column.unit) for name, column in RECORDED.items() if name in SHOWN} | {
    "training_flops": ("training TFLOPs", 1e12),
    "trainable_params": ("trainable parameters", 1.0),
    "training_cost_s": ("training time (s)", 1.0),
    "peak_memory_bytes": ("peak memory (GiB)", float(2**30)),
}


def costs_table(info: Savings) -> pd.DataFrame:
    """One row per cell: each cost, the baseline's, and the share saved; costs that nobody measured are left out."""
    first = info.table.drop_duplicates("row").set_index("row")
    table = pd.DataFrame(setting_columns(first))
    for cost, (title, unit) in ((cost, UNITS[cost]) for cost in SHOWN):
        rows = info.table[info.table["cost"] == cost].set_index("row")
        if rows["saved"].notna().any():
            table[title] = (rows["cost_mean"] / unit).round(4)
            table[f"baseline: {title}"] = (rows["baseline_mean"] / unit).round(4)
            table[f"{COSTS[cost]} saved (%)"] = (100 * rows["saved"]).round(2)
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
    why_no_savings,
    method=_METHOD,
)
TABLE = Part(
    "cost-table",
    "Costs and savings",
    "What each setting costs, what its baseline costs, and the share saved; means over the pairs.",
    prepare_savings,
    costs_table,
    why_empty=why_no_savings,
    method=_METHOD,
)
