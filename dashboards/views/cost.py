"""Cost: what does freezing save? Scores against a cost, and the settings that nothing beats in both."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
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
from orchestrator.analysis.layer_strip import layer_strip
from orchestrator.analysis.pareto import pareto
from orchestrator.analysis.savings import CONSTANT
from orchestrator.analysis.trial_frame import MEMORY

UNITS = {**savings.UNITS, "train_s": ("optimiser steps (s)", 1.0)}
_LOG_FROM = 20.0  # largest by smallest cost; beyond it a linear axis crowds the small ones
# Pixels: where markers and names stand on the narrowest screen of each kind, and what they take.
_ROOM, _NARROW_ROOM, _HIGH, _LETTER, _SQUARE, _LINE, _MARKER = 820, 290, 330, 7.0, 11.5, 16, 8
_SIDES = ("right", "left", "center")


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
    return _costed(selection, selection.cost)


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
    costs = info.table["cost"]
    wide = len(costs) > 1 and costs.min() > 0 and costs.max() / costs.min() > _LOG_FROM
    title, most = UNITS[info.cost][0], info.table[["cost", "cost_high"]].max().max()
    x = log_axis(title, costs) if wide else axis(title, range=[0, 1.1 * most])
    sides = _sides(info.table, np.log10(costs) if wide else costs, x["range"], look, stepped=bool(before))
    data = before + [_marker(row, info, look, sides.get(row.cell)) for row in info.table.itertuples()]
    named = len(sides) == len(info.table)
    drawn = layout(look, x=x, y=axis(f"{info.value_name} (%)"), height=440, showlegend=not named or bool(before))
    return with_note({"data": data, "layout": drawn}, look, info.note)


Box = tuple[float, float, float, float]  # left, right, bottom, top


def _sides(table: pd.DataFrame, costs: pd.Series, ends: list[float], look: Look, *, stepped: bool) -> dict[str, str]:
    """Where the name of each cell stands, as `textposition`.

    A cell whose name would cover another, or the Pareto front, if it is `stepped` through, has none.
    """
    width = _NARROW_ROOM if look.narrow else _ROOM
    at_x = width * (costs - ends[0]) / (ends[1] - ends[0])
    low, high = table[["mean", "low"]].min().min(), table[["mean", "high"]].max().max()
    at_y = _HIGH * (table["mean"] - low) / ((high - low) or 1.0)
    taken: list[Box] = [(x - _MARKER, x + _MARKER, y - _MARKER, y + _MARKER) for x, y in zip(at_x, at_y, strict=True)]
    front = sorted(zip(at_x[table["on_front"]], at_y[table["on_front"]], strict=True)) if stepped else []
    for (x, y), (next_x, next_y) in pairwise(front):
        taken += [(x, next_x, y, y), (next_x, next_x, min(y, next_y), max(y, next_y))]
    found = {}
    for row, x, y in zip(table.itertuples(), at_x, at_y, strict=True):
        words = cell_name(row, several=False)
        squares = layer_strip(str(row.freeze), int(row.n_layers))
        letters = 0 if look.narrow and squares else len(words) - len(squares)
        wide = _SQUARE * len(squares) + _LETTER * letters
        for place, box in _places(x, y, wide):
            if box[0] >= 0 and box[1] <= width and not any(_overlap(box, other) for other in taken):
                found[row.cell] = place
                taken.append(box)
                break
    return found


def _places(x: float, y: float, wide: float) -> Iterator[tuple[str, Box]]:
    """The places beside, above and below a marker, those first that its intervals do not cross."""
    starts = {"right": x + _MARKER / 2, "left": x - _MARKER / 2 - wide, "center": x - wide / 2}
    for side in _SIDES:
        for up, bottom in (("top", y + _MARKER), ("bottom", y - _MARKER - _LINE)):
            yield f"{up} {side}", (starts[side], starts[side] + wide, bottom, bottom + _LINE)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _marker(row: Any, info: Costed, look: Look, side: str | None) -> dict[str, Any]:
    words, unit = cell_name(row, several=False), UNITS[info.cost][0]
    score = pd.DataFrame({"mean": [row.mean], "low": [row.low], "high": [row.high]})
    cost = pd.DataFrame({"mean": [row.cost], "low": [row.cost_low], "high": [row.cost_high]})
    return {
        "type": "scatter",
        "mode": "markers+text" if side else "markers",
        "name": words,
        "showlegend": side is None,
        "x": numbers([row.cost]),
        "y": numbers([row.mean], 100),
        "text": [words],
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
