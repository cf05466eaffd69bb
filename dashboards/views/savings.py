"""Savings: what does freezing save? Scores against a cost, and the share of each cost that each setting saves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.page_query import COSTS
from dashboards.data.selection import Selection
from dashboards.views.forest import ONLY_BASELINE
from dashboards.views.kit.cells import Shown, completed_of, hundredths, one_device, setting_columns, shown_cells
from dashboards.views.kit.drawing import (
    Box,
    beside_marks,
    cell_colour,
    cell_name,
    cell_symbol,
    interval_bars,
    log_axis,
    name,
    numbers,
    rows_layout,
    with_note,
    without_few,
)
from dashboards.views.kit.part import SHARED_CONTROLS, EmptyPartError, Part, View
from dashboards.views.kit.theme import Figure, Look, axis, layout, vertical_line
from orchestrator.analysis.cells import layer_strip
from orchestrator.analysis.describe import describe_cells
from orchestrator.analysis.savings import CONSTANT, pareto, savings
from orchestrator.analysis.savings import COSTS as SHOWN
from orchestrator.analysis.trial_frame import MEMORY
from orchestrator.config.quantities import counted
from trials.record import COSTS as RECORDED

# What each setting saves of its baseline's parameters, training time, memory and energy.

_MARKS = (
    ("#56B4E9", "circle"), ("#0072B2", "square"), ("#D55E00", "diamond"), ("#009E73", "triangle-up"),
    ("#CC79A7", "cross"), ("#E69F00", "star"), ("#999999", "x"),
)  # fmt: skip
_LOOKS = dict(zip(SHOWN, cycle(_MARKS), strict=False))
_STEP = 0.2  # between the costs of one setting, in rows


def prepare_savings(selection: Selection) -> Shown:
    """Shares of the baseline's costs that are saved, paired by seed: a row per cell but the baseline, and cost.

    Columns: those of `analysis.savings.savings`, `freeze`, `n_layers`, `train_size`, `row` (of the cell, from the top).
    The note names the costs that no cell has, and why.
    """
    shown = shown_cells(selection.trials)
    trials = selection.trials[selection.trials["cell"].isin(shown.table["cell"])]
    shares = savings(trials, list(_LOOKS))
    others = shown.table[shown.table["cell"] != shown.table["baseline"]].reset_index(drop=True)
    described = others.assign(row=others.index)[["cell", "freeze", "n_layers", "train_size", "row"]]
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
            absent.append(f"{COSTS[cost]}: {', '.join(dict.fromkeys(rows['note']))}")
    return f"Not available: {'; '.join(absent)}." if absent else ""


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
    labels = [cell_name(row, several=several) for row in rows.itertuples()]
    drawn = rows_layout(look, axis("saved of the baseline (%)"), labels, row_height=44, shapes=[vertical_line(look)])
    return with_note({"data": data, "layout": drawn}, look, info.note)


def _at(rows: pd.DataFrame, shown: Sequence[str]) -> list[float | None]:
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
        "y": _at(rows, shown),
        "error_x": interval_bars(rows.rename(columns={"saved": "mean"}), look.muted, scale=100),
        "marker": {"symbol": symbol, "size": 10, "color": colour, "line": {"width": 1, "color": look.text}},
        "customdata": [[_basis(row)] for row in rows.itertuples()],
        "hovertemplate": f"%{{x:.1f}} % of the {COSTS[cost]} saved<br>%{{customdata[0]}}<extra></extra>",
    }


def _basis(row: Any) -> str:
    basis = counted(row.n_pairs, "pair") if row.n_pairs else "counted"
    return f"{basis}; {name(row.note)}" if row.note else basis


def _reasons(rows: pd.DataFrame, shown: Sequence[str], look: Look) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "text",
        "name": "not available",
        "showlegend": False,
        "x": [0.0] * len(rows),
        "y": _at(rows, shown),
        "text": [f" {COSTS[row.cost]}: {name(row.note)}" for row in rows.itertuples()],
        "textposition": "middle right",
        "textfont": {"size": 11, "color": look.muted},
        "hoverinfo": "skip",
    }


def savings_table(info: Shown) -> pd.DataFrame:
    """One row per cell and cost."""
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


# Title of a column or axis with its unit, and how many of the store's units make one of that.
_SAVED_UNITS = {name: (column.label, column.unit) for name, column in RECORDED.items() if name in SHOWN} | {
    "training_flops": ("training TFLOPs", 1e12),
    "trainable_params": ("trainable parameters", 1.0),
    "training_cost_s": ("training time (s)", 1.0),
    "peak_memory_bytes": ("peak memory (GiB)", float(2**30)),
}


def costs_table(info: Shown) -> pd.DataFrame:
    """One row per cell: each cost, the baseline's, and the share saved; costs that nobody measured are left out."""
    first = info.table.drop_duplicates("row").set_index("row")
    table = pd.DataFrame(setting_columns(first))
    for cost, (title, unit) in ((cost, _SAVED_UNITS[cost]) for cost in SHOWN):
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


# Cost: what does freezing save? Scores against a cost, and the settings that nothing beats in both.

UNITS = {**_SAVED_UNITS, "train_s": ("optimiser steps (s)", 1.0)}
_LOG_FROM = 20.0  # largest by smallest cost; beyond it a linear axis crowds the small ones
# Pixels: where markers and names stand on the narrowest screen of each kind, and what they take.
_ROOM, _NARROW_ROOM, _HIGH = 820, 290, 330


class Costed(NamedTuple):
    """Cells of one train size by score and cost.

    Attributes:
        table: One row per cell: `cells.KEYS`, `n`, `mean`, `low`, `high` (of the score), `cost`, `cost_low`,
            `cost_high` (in the unit of `UNITS`) and `on_front`.
        cost: A key of `UNITS`.
    """

    table: pd.DataFrame
    cost: str
    value_name: str
    note: str


def prepare_pareto(selection: Selection) -> Costed:
    """Scores by the cost that the query names."""
    cost = selection.query.cost
    shown = shown_cells(selection.trials, sizes=1)
    done = completed_of(selection.trials, shown.table)
    done = done[done[selection.column].notna()]
    alone = one_device(done[np.isfinite(done[cost])], cost)
    note = " ".join(filter(None, [shown.note, alone.note]))
    table = _described(alone.table, shown.table, cost, selection.column)
    if not len(table):
        size = int(shown.table["train_size"].iloc[0])
        reason = f"No completed trial with train size {size:,} has its {COSTS[cost]} recorded. {note}"
        warm = " On a CPU a trial's memory is not measured, as its worker holds what earlier trials left."
        raise EmptyPartError(reason.strip() + warm * (cost == MEMORY))
    return Costed(table, cost, selection.value_name, note)


def _described(rows: pd.DataFrame, cells: pd.DataFrame, cost: str, column: str) -> pd.DataFrame:
    unit = UNITS[cost][1]
    scores = _described_with(rows, column)
    costs = _described_with(rows.assign(**{cost: rows[cost] / unit}), cost)
    costs = costs.rename(columns={"mean": "cost", "low": "cost_low", "high": "cost_high"}).drop(columns="n")
    if cost in CONSTANT:  # the same under every seed
        costs = costs.assign(cost_low=np.nan, cost_high=np.nan)
    front = pareto(rows, cost, column)[["cell", "on_front"]]
    table = cells.merge(scores, on="cell").merge(costs, on="cell").merge(front, on="cell")
    return table.reset_index(drop=True)


def _described_with(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    return without_few(describe_cells(rows, ["cell"], column))[["cell", "n", "mean", "low", "high"]]


def draw_pareto(info: Costed, look: Look) -> Figure:
    """A marker per cell, intervals both ways, and steps through the cells that no other beats."""
    front = info.table[info.table["on_front"]].sort_values("cost")
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": "Pareto front",
        "x": numbers(front["cost"]),
        "y": numbers(front["mean"], 100),
        "line": {"color": look.muted, "width": 1.5, "dash": "dot", "shape": "hv"},
        "hoverinfo": "skip",
    }
    costs = info.table["cost"]
    wide = len(costs) > 1 and costs.min() > 0 and costs.max() / costs.min() > _LOG_FROM
    title, most = UNITS[info.cost][0], info.table[["cost", "cost_high"]].max().max()
    x = log_axis(title, costs) if wide else axis(title, range=[0, 1.1 * most])
    sides = _sides(info.table, np.log10(costs) if wide else costs, x["range"], look)
    data = [line] + [_marker(row, info, look, sides.get(row.cell)) for row in info.table.itertuples()]
    drawn = layout(look, x=x, y=axis(f"{info.value_name} (%)"), height=440, showlegend=True)
    return with_note({"data": data, "layout": drawn}, look, info.note)


def _sides(table: pd.DataFrame, costs: pd.Series, ends: list[float], look: Look) -> dict[str, str]:
    """Where the name of each cell stands, as `textposition`.

    A cell whose name would cover another, or the Pareto front, has none.
    """
    width = _NARROW_ROOM if look.narrow else _ROOM
    at_x = width * (costs - ends[0]) / (ends[1] - ends[0])
    low, high = table[["mean", "low"]].min().min(), table[["mean", "high"]].max().max()
    at_y = _HIGH * (table["mean"] - low) / ((high - low) or 1.0)
    front = sorted(zip(at_x[table["on_front"]], at_y[table["on_front"]], strict=True))
    lines: list[Box] = []
    for (x, y), (next_x, next_y) in pairwise(front):
        lines += [(x, next_x, y, y), (next_x, next_x, min(y, next_y), max(y, next_y))]
    names = [cell_name(row, several=False) for row in table.itertuples()]
    if look.narrow:
        strips = [layer_strip(str(row.freeze), int(row.n_layers)) for row in table.itertuples()]
        names = [strip or label for strip, label in zip(strips, names, strict=True)]
    sides = beside_marks(
        list(zip(at_x, at_y, strict=True)), names, (0, width, -np.inf, np.inf), range(len(names)), lines
    )
    return {cell: side for cell, side in zip(table["cell"], sides, strict=True) if side}


def _marker(row: Any, info: Costed, look: Look, side: str | None) -> dict[str, Any]:
    label, unit = cell_name(row, several=False), UNITS[info.cost][0]
    score = pd.DataFrame({"mean": [row.mean], "low": [row.low], "high": [row.high]})
    cost = pd.DataFrame({"mean": [row.cost], "low": [row.cost_low], "high": [row.cost_high]})
    return {
        "type": "scatter",
        "mode": "markers+text" if side else "markers",
        "name": label,
        "showlegend": side is None,
        "x": numbers([row.cost]),
        "y": numbers([row.mean], 100),
        "text": [label],
        "textposition": side or "top center",
        "cliponaxis": False,
        "error_x": interval_bars(cost, look.muted, thickness=1),
        "error_y": interval_bars(score, look.muted, scale=100, thickness=1),
        "marker": {
            "symbol": cell_symbol(look, row),
            "size": 12,
            "color": cell_colour(look, row),
            "line": {"width": 1.5, "color": look.text},
        },
        "customdata": [[int(row.n)]],
        "hovertemplate": f"%{{y:.2f}} %, {unit} %{{x:,.4~f}}<br>mean of n=%{{customdata[0]}}<extra>{label}</extra>",
    }


def costed_table(info: Costed) -> pd.DataFrame:
    """One row per cell."""
    t, unit = info.table, UNITS[info.cost][0]
    return pd.DataFrame(
        {
            **setting_columns(t),
            "n": t["n"],
            **hundredths(t, mean=f"{info.value_name} (%)", low="95 % from (%)", high="95 % to (%)"),
            unit: t["cost"].round(4),
            f"{unit}, 95 % from": t["cost_low"].round(4),
            f"{unit}, 95 % to": t["cost_high"].round(4),
            "on the Pareto front": t["on_front"],
        }
    )


PARETO = Part(
    "cost-pareto",
    "Score against cost",
    "No setting scores higher at a lower cost than those on the dotted line (the Pareto front).",
    prepare_pareto,
    costed_table,
    draw_pareto,
    method="Markers are means with 95 % intervals from three seeds on. Training time is optimiser steps and the pass "
    "through the frozen layers. Time, memory and energy are those of one device and of the same conditions there.",
)
VIEW = View(
    "/savings",
    "Savings",
    "What does freezing save?",
    (PARETO, SAVINGS, TABLE),
    (*SHARED_CONTROLS, "cost"),
    takes_in=("/cost",),
)
