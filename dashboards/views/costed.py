"""Settings by score and cost, each with its interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.page_query import COSTS
from dashboards.data.selection import Selection
from dashboards.views.kit.cells import completed_of, hundredths, one_device, setting_columns, shown_cells
from dashboards.views.kit.marks import without_few
from dashboards.views.kit.part import EmptyPartError
from orchestrator.analysis.describe import describe_cells
from orchestrator.analysis.savings import CONSTANT, pareto
from orchestrator.analysis.savings import COSTS as SHOWN
from trials.record import COSTS as RECORDED
from trials.record import MEMORY

# Title of a column or axis with its unit, and how many of the store's units make one of that.
UNITS = {name: (column.label, column.unit) for name, column in RECORDED.items() if name in SHOWN} | {
    "training_flops": ("training TFLOPs", 1e12),
    "trainable_params": ("trainable parameters", 1.0),
    "training_cost_s": ("training time (s)", 1.0),
    "peak_memory_bytes": ("peak memory (GiB)", float(2**30)),
    "train_s": ("optimiser steps (s)", 1.0),
}


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
