"""Cost: what does freezing save? Score against a cost, the Pareto line, training time; shares saved are in `saved`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.page_query import COSTS
from dashboards.data.selection import Selection
from dashboards.views import savings, times
from dashboards.views.marks import (
    cell_colour,
    cell_symbol,
    cell_words,
    completed_of,
    few_cells,
    numbers,
    one_device,
    with_note,
)
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis, layout
from orchestrator.analysis.describe import describe_cells
from orchestrator.analysis.pareto import pareto
from orchestrator.analysis.savings import COUNTED

# What a cost is called on an axis, with its unit, and how many of the store's units one of these is.
UNITS = {
    "training_cost_s": ("training time (s)", 1.0),
    "train_s": ("optimiser steps (s)", 1.0),
    "trainable_params": ("trainable parameters (millions)", 1e6),
    "peak_memory_bytes": ("peak memory (GiB)", float(2**30)),
    "energy_j": ("energy (J)", 1.0),
}
_LOG_FROM = 20.0  # largest by smallest cost: from there on a linear axis would crowd the small ones
_NAMED = 12  # so many markers have room for words


class Costed(NamedTuple):
    """Cells of one train size by score and cost.

    Attributes:
        table: A row a cell: `marks.KEYS`, `n`, `mean`, `low`, `high` (of the score), `cost`, `cost_low`, `cost_high`
            (in the unit of `UNITS`) and `on_front`.
        cost: A key of `UNITS`.
        value_name: Of the score.
        size: The train size.
        note: What is left out, in words.
    """

    table: pd.DataFrame
    cost: str
    value_name: str
    size: int
    note: str


def prepare_pareto(selection: Selection) -> Costed:
    """By the cost that the query names."""
    return _costed(selection, selection.query.cost)


def prepare_params(selection: Selection) -> Costed:
    """By trainable parameters."""
    return _costed(selection, "trainable_params")


def _costed(selection: Selection, cost: str) -> Costed:
    few = few_cells(selection.trials, sizes=1)
    done = completed_of(selection.trials, few.table)
    done = done[done[selection.column].notna()]
    alone = one_device(done[np.isfinite(done[cost])], cost)
    size = int(few.table["train_size"].iloc[0])
    return Costed(
        _described(alone.trials, few.table, cost, selection.column), cost, selection.value_name, size,
        " ".join(filter(None, [few.note, alone.note])),
    )  # fmt: skip


def _described(rows: pd.DataFrame, cells: pd.DataFrame, cost: str, column: str) -> pd.DataFrame:
    unit = UNITS[cost][1]
    scores = _drawn(describe_cells(rows, ["cell"], column))
    costs = _drawn(describe_cells(rows.assign(**{cost: rows[cost] / unit}), ["cell"], cost))
    costs = costs.rename(columns={"mean": "cost", "low": "cost_low", "high": "cost_high"}).drop(columns="n")
    if cost in COUNTED:  # the same under every seed: no interval to speak of
        costs = costs.assign(cost_low=np.nan, cost_high=np.nan)
    front = pareto(rows, cost, column)[["cell", "on_front"]]
    table = cells.merge(scores, on="cell").merge(costs, on="cell").merge(front, on="cell")
    return table.reset_index(drop=True)


def _drawn(described: pd.DataFrame) -> pd.DataFrame:
    """Means, with intervals where a figure draws them."""
    ends = {end: described[end].where(~described["dots_only"]) for end in ("low", "high")}
    return described[["cell", "n", "mean"]].assign(**ends)


def no_costs(info: Costed) -> str:
    """In words."""
    if len(info.table):
        return ""
    return (
        f"No completed trial of the train size {info.size:,} has its {COSTS[info.cost]} recorded. {info.note}".strip()
    )


def draw_pareto(info: Costed, look: Look) -> Figure:
    """A marker a cell, intervals both ways, a line of steps through the cells that no other beats."""
    front = info.table[info.table["on_front"]].sort_values("cost")
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": "Pareto line",
        "x": numbers(front["cost"]),
        "y": numbers(front["mean"], 100),
        "line": {"color": look.muted, "width": 1.5, "dash": "dot", "shape": "hv"},
        "hoverinfo": "skip",
    }
    return _figure(info, look, [line])


def draw_params(info: Costed, look: Look) -> Figure:
    """A marker a cell."""
    return _figure(info, look, [])


def _figure(info: Costed, look: Look, before: list[dict[str, Any]]) -> Figure:
    named = len(info.table) <= _NAMED
    data = before + [_marker(row, info, look, named=named) for row in info.table.itertuples()]
    costs = info.table["cost"]
    wide = len(costs) > 1 and costs.min() > 0 and costs.max() / costs.min() > _LOG_FROM
    x = axis(UNITS[info.cost][0], **({"type": "log"} if wide else {"rangemode": "tozero"}))
    drawn = layout(look, x=x, y=axis(f"{info.value_name} (%)"), height=440, showlegend=not named or bool(before))
    return with_note({"data": data, "layout": drawn}, look, info.note)


def _marker(row: Any, info: Costed, look: Look, *, named: bool) -> dict[str, Any]:
    words = cell_words(row, several=False)
    unit = UNITS[info.cost][0]
    error = {"type": "data", "symmetric": False, "color": look.muted, "thickness": 1, "width": 3}
    return {
        "type": "scatter",
        "mode": "markers+text" if named else "markers",
        "name": words,
        "showlegend": not named,
        "x": numbers([row.cost]),
        "y": numbers([row.mean], 100),
        "text": [words],
        "textposition": "bottom center" if row.embeddings else "top center",  # a freeze and its twin lie close
        "error_x": {
            **error, "array": numbers([row.cost_high - row.cost]), "arrayminus": numbers([row.cost - row.cost_low]),
        },
        "error_y": {
            **error, "array": numbers([row.high - row.mean], 100), "arrayminus": numbers([row.mean - row.low], 100),
        },
        "marker": {
            "symbol": cell_symbol(look, row), "size": 12, "color": cell_colour(look, row),
            "line": {"width": 1.5, "color": look.text},
        },
        "customdata": [[int(row.n)]],
        "hovertemplate": f"%{{y:.2f}} %, {unit} %{{x:,.4~g}}<br>mean of n=%{{customdata[0]}}"
        f"<extra>{words}</extra>",
    }  # fmt: skip


def costed_table(info: Costed) -> pd.DataFrame:
    """A row a cell."""
    t, unit = info.table, UNITS[info.cost][0]
    return pd.DataFrame(
        {
            "train size (sentences)": t["train_size"],
            "frozen": t["freeze"],
            "n": t["n"],
            f"{info.value_name} (%)": (100 * t["mean"]).round(4),
            "95 % from (%)": (100 * t["low"]).round(4),
            "95 % to (%)": (100 * t["high"]).round(4),
            unit: t["cost"].round(4),
            f"{unit}, 95 % from": t["cost_low"].round(4),
            f"{unit}, 95 % to": t["cost_high"].round(4),
            "on the front": t["on_front"],
        }
    )


PARETO = Part(
    "cost-pareto",
    "Score against cost",
    "A marker is the mean of a cell, with 95 % intervals both ways from three seeds on. The dotted steps join the "
    "cells that no other beats in score and cost. Training time is optimiser steps and the states of frozen layers "
    "(prefix). Times, memory and energy are those of one device.",
    prepare_pareto,
    costed_table,
    draw_pareto,
    no_costs,
)
PARAMS = Part(
    "cost-params",
    "Score against trainable parameters",
    "Means of the cells, with 95 % intervals from three seeds on.",
    prepare_params,
    costed_table,
    draw_params,
    no_costs,
)
PARTS = (PARETO, savings.SAVINGS, PARAMS, times.TIMES, savings.TABLE)
