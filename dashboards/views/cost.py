"""Cost: what does freezing save? Scores against a cost, and the settings that nothing beats in both."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.page_query import COSTS
from dashboards.data.selection import Selection
from dashboards.views import adaptive, savings, times
from dashboards.views.cells import completed_of, one_device, setting_columns, shown_cells
from dashboards.views.drawing import (
    cell_colour,
    cell_name,
    cell_symbol,
    interval_bars,
    log_axis,
    numbers,
    with_note,
    without_few,
)
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis, layout
from dashboards.views.view import SHARED_CONTROLS, View
from orchestrator.analysis.describe import describe_cells
from orchestrator.analysis.pareto import pareto
from orchestrator.analysis.savings import CONSTANT
from orchestrator.analysis.trial_frame import MEMORY

UNITS = {**savings.UNITS, "train_s": ("optimiser steps (s)", 1.0)}
_LOG_FROM = 20.0  # largest by smallest cost; beyond it a linear axis crowds the small ones
_NEAR = 0.2  # an end of the axis, as a share of it
_MAX_NAMED = 12  # markers that have room for their names


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
    size: int
    note: str


def prepare_pareto(selection: Selection) -> Costed:
    """Scores by the cost that the query names."""
    return _costed(selection, selection.query.cost)


def prepare_params(selection: Selection) -> Costed:
    """Scores by trainable parameters."""
    return _costed(selection, "trainable_params")


def _costed(selection: Selection, cost: str) -> Costed:
    shown = shown_cells(selection.trials, sizes=1)
    done = completed_of(selection.trials, shown.table)
    done = done[done[selection.column].notna()]
    alone = one_device(done[np.isfinite(done[cost])], cost)
    size = int(shown.table["train_size"].iloc[0])
    return Costed(
        _described(alone.trials, shown.table, cost, selection.column), cost, selection.value_name, size,
        " ".join(filter(None, [shown.note, alone.note])),
    )  # fmt: skip


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


def why_no_costs(info: Costed) -> str:
    """Why there is no cost to show; empty if there is one."""
    if len(info.table):
        return ""
    words = f"No completed trial with train size {info.size:,} has its {COSTS[info.cost]} recorded. {info.note}"
    warm = " On a CPU a trial's memory is not measured, as its worker holds what earlier trials left."
    return f"{words.strip()}{warm if info.cost == MEMORY else ''}"


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
    return _figure(info, look, [line])


def draw_params(info: Costed, look: Look) -> Figure:
    """A marker per cell."""
    return _figure(info, look, [])


def _figure(info: Costed, look: Look, before: list[dict[str, Any]]) -> Figure:
    named = len(info.table) <= _MAX_NAMED
    data = before + [_marker(row, info, look, named=named) for row in info.table.itertuples()]
    costs = info.table["cost"]
    wide = len(costs) > 1 and costs.min() > 0 and costs.max() / costs.min() > _LOG_FROM
    title, most = UNITS[info.cost][0], info.table[["cost", "cost_high"]].max().max()
    x = log_axis(title, costs) if wide else axis(title, range=[0, 1.1 * most])
    drawn = layout(look, x=x, y=axis(f"{info.value_name} (%)"), height=440, showlegend=not named or bool(before))
    return with_note({"data": data, "layout": drawn}, look, info.note)


def _side(row: Any, info: Costed) -> str:
    """Where a name has room: beside a marker that is near the left or the right end."""
    costs = info.table["cost"]
    place = (row.cost - costs.min()) / ((costs.max() - costs.min()) or 1.0)
    return "right" if place < _NEAR else "left" if place > 1 - _NEAR else "center"


def _marker(row: Any, info: Costed, look: Look, *, named: bool) -> dict[str, Any]:
    words, unit = cell_name(row, several=False), UNITS[info.cost][0]
    score = pd.DataFrame({"mean": [row.mean], "low": [row.low], "high": [row.high]})
    cost = pd.DataFrame({"mean": [row.cost], "low": [row.cost_low], "high": [row.cost_high]})
    return {
        "type": "scatter",
        "mode": "markers+text" if named else "markers",
        "name": words,
        "showlegend": not named,
        "x": numbers([row.cost]),
        "y": numbers([row.mean], 100),
        "text": [words],
        "textposition": f"{'bottom' if row.embeddings else 'top'} {_side(row, info)}",  # these two lie close
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
        "hovertemplate": f"%{{y:.2f}} %, {unit} %{{x:,.4~f}}<br>mean of n=%{{customdata[0]}}<extra>{words}</extra>",
    }


def costed_table(info: Costed) -> pd.DataFrame:
    """One row per cell."""
    t, unit = info.table, UNITS[info.cost][0]
    return pd.DataFrame(
        {
            **setting_columns(t),
            "n": t["n"],
            f"{info.value_name} (%)": (100 * t["mean"]).round(4),
            "95 % from (%)": (100 * t["low"]).round(4),
            "95 % to (%)": (100 * t["high"]).round(4),
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
    why_no_costs,
    method="Markers are means with 95 % intervals from three seeds on. Training time is optimiser steps and the pass "
    "through the frozen layers. Time, memory and energy are those of one device and of the same conditions there.",
)
PARAMS = Part(
    "cost-params",
    "Score against trainable parameters",
    "Mean score of each setting by the number of parameters that it trains, with 95 % intervals from three seeds on.",
    prepare_params,
    costed_table,
    draw_params,
    why_no_costs,
)
VIEW = View(
    "/cost",
    "Cost",
    "What does freezing save?",
    (PARETO, savings.SAVINGS, adaptive.WHEN, PARAMS, times.TIMES, savings.TABLE),
    (*SHARED_CONTROLS, "cost"),
)
