"""Scores against a cost, and the settings that nothing beats in both (the Pareto front)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from dashboards.views.costed import UNITS, Costed, costed_table, prepare_pareto
from dashboards.views.kit.axes import log_axis, with_note
from dashboards.views.kit.label_places import Box, beside_marks
from dashboards.views.kit.labels import cell_name, numbers
from dashboards.views.kit.marks import cell_colour, cell_symbol, interval_bars
from dashboards.views.kit.part import Part
from dashboards.views.kit.theme import Figure, Look, axis, layout
from orchestrator.analysis.freeze_names import layer_strip

_LOG_FROM = 20.0  # largest by smallest cost; beyond it a linear axis crowds the small ones
# Pixels: where markers and names stand on the narrowest screen of each kind, and what they take.
_ROOM, _NARROW_ROOM, _HIGH = 820, 290, 330


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
