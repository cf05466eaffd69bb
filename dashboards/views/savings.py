"""What each cell saves of its baseline's parameters, training time, memory and energy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.page_query import COSTS
from dashboards.data.selection import Selection
from dashboards.views.marks import cell_words, few_cells, numbers, with_note
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis, layout, zero_line
from orchestrator.analysis.savings import savings

_LOOKS = {
    "trainable_params": ("#0072B2", "square"),
    "training_cost_s": ("#D55E00", "diamond"),
    "peak_memory_bytes": ("#009E73", "triangle-up"),
    "energy_j": ("#CC79A7", "cross"),
}
_STEP = 0.2  # between the costs of one cell, in rows


class Saved(NamedTuple):
    """Shares saved.

    Attributes:
        table: A row a non-baseline cell and cost: columns of `analysis.savings.savings`, `freeze`, `train_size`, `row`
            (of the cell, from the top).
        absent: Costs that no cell has a figure of, and why, in words.
        note: What is left out, in words.
    """

    table: pd.DataFrame
    absent: str
    note: str


def prepare_saved(selection: Selection) -> Saved:
    """All four costs, paired by seed."""
    few = few_cells(selection.trials)
    trials = selection.trials[selection.trials["cell"].isin(few.table["cell"])]
    found = savings(trials, list(_LOOKS))
    others = few.table[few.table["cell"] != few.table["baseline"]].reset_index(drop=True)
    described = others.assign(row=others.index)[["cell", "freeze", "train_size", "row"]]
    table = found.merge(described, on="cell").sort_values(["row"], kind="stable", ignore_index=True)
    return Saved(table, _absent(table), few.note)


def _absent(table: pd.DataFrame) -> str:
    told = []
    for cost in _LOOKS:
        rows = table[table["cost"] == cost]
        if len(rows) and rows["saved"].isna().all():
            told.append(f"{COSTS[cost]}: {', '.join(dict.fromkeys(rows['note']))}")
    return f"Without a figure: {'; '.join(told)}." if told else ""


def no_savings(info: Saved) -> str:
    """In words."""
    if not len(info.table):
        return "Only the baseline is here, so there is nothing that saves."
    return "" if info.table["saved"].notna().any() else info.absent


def draw_saved(info: Saved, look: Look) -> Figure:
    """A row a cell, a marker a cost; what has no figure says why."""
    rows = info.table.drop_duplicates("row")
    several = rows["train_size"].nunique() > 1
    data = [_markers(cost, info.table, look) for cost in _LOOKS]
    data = [trace for trace in data if trace["x"]]
    shown = set(info.table.loc[info.table["saved"].notna(), "cost"])
    lacking = info.table[info.table["saved"].isna() & info.table["cost"].isin(shown)]
    if len(lacking):
        data.append(_reasons(lacking, look))
    y = {
        "tickvals": rows["row"].tolist(), "ticktext": [cell_words(row, several=several) for row in rows.itertuples()],
        "range": [len(rows) - 0.5, -0.5], "automargin": True, "showgrid": False,
    }  # fmt: skip
    height = int(np.clip(140 + 44 * len(rows), 260, 1600))
    drawn = layout(look, x=axis("saved of the baseline's (%)"), y=y, height=height, shapes=[zero_line(look)])
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
        "error_x": {
            "type": "data", "symmetric": False, "color": look.muted, "thickness": 1.5, "width": 4,
            "array": numbers(rows["high"] - rows["saved"], 100, 2),
            "arrayminus": numbers(rows["saved"] - rows["low"], 100, 2),
        },
        "marker": {"symbol": symbol, "size": 10, "color": colour, "line": {"width": 1, "color": look.text}},
        "customdata": [[_basis(row)] for row in rows.itertuples()],
        "hovertemplate": f"%{{x:.1f}} % of the {COSTS[cost]}<br>%{{customdata[0]}}<extra></extra>",
    }  # fmt: skip


def _basis(row: Any) -> str:
    basis = f"{row.n_pairs} pairs" if row.n_pairs else "counted"
    return f"{basis}; {row.note}" if row.note else basis


def _reasons(rows: pd.DataFrame, look: Look) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "text",
        "name": "no figure",
        "showlegend": False,
        "x": [0.0] * len(rows),
        "y": _at(rows),
        "text": [f" {COSTS[row.cost]}: {row.note}" for row in rows.itertuples()],
        "textposition": "middle right",
        "textfont": {"size": 11, "color": look.muted},
        "hoverinfo": "skip",
    }


def saved_table(info: Saved) -> pd.DataFrame:
    """A row a cell and cost."""
    t = info.table
    return pd.DataFrame(
        {
            "train size (sentences)": t["train_size"],
            "frozen": t["freeze"],
            "cost": t["cost"].map(COSTS),
            "pairs": t["n_pairs"],
            "saved (%)": (100 * t["saved"]).round(3),
            "95 % from (%)": (100 * t["low"]).round(3),
            "95 % to (%)": (100 * t["high"]).round(3),
            "note": t["note"],
        }
    )


_COLUMNS = {
    "trainable_params": ("trainable parameters (millions)", 1e6),
    "training_cost_s": ("training time (s)", 1.0),
    "peak_memory_bytes": ("peak memory (GiB)", float(2**30)),
    "energy_j": ("energy (J)", 1.0),
}


def wide_table(info: Saved) -> pd.DataFrame:
    """A row a cell: what it needs and what it saves of each cost; costs without any figure are left out."""
    first = info.table.drop_duplicates("row").set_index("row")
    table = pd.DataFrame({"train size (sentences)": first["train_size"], "frozen": first["freeze"]})
    for cost, (title, unit) in _COLUMNS.items():
        rows = info.table[info.table["cost"] == cost].set_index("row")
        if rows["saved"].notna().any():
            table[title] = (rows["cost_mean"] / unit).round(4)
            table[f"baseline's {title}"] = (rows["baseline_mean"] / unit).round(4)
            table[f"{COSTS[cost]} saved (%)"] = (100 * rows["saved"]).round(2)
    return table.reset_index(drop=True)


_ABOUT = (
    "Times, memory and energy are paired by seed, and only pairs that ran on one device count; Student's 95 % interval "
    "on the logarithms of the ratios. Parameters are counted. Compute time is optimiser steps and the states of frozen "
    "layers, without set-up and evaluation."
)
SAVINGS = Part("cost-savings", "What is saved", _ABOUT, prepare_saved, saved_table, draw_saved, no_savings)
TABLE = Part(
    "cost-table", "Costs and savings", f"Means over the pairs. {_ABOUT}", prepare_saved, wide_table, empty=no_savings
)
