"""Which settings are unstable: how often their training broke or collapsed."""

from __future__ import annotations

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.kit.cells import hundredths, setting_columns, with_cells
from dashboards.views.kit.part import EmptyPartError, Part
from orchestrator.analysis.instability import instability


def prepare_stability(selection: Selection) -> pd.DataFrame:
    """How often training fails, over all trials that have ended.

    One row per cell, by train size and depth: `instability.instability` and `cells.KEYS`.
    """
    trials = selection.trials
    table = with_cells(instability(trials), trials).sort_values("train_size", kind="stable", ignore_index=True)
    if not table[["broken", "collapsed"]].to_numpy().any():
        raise EmptyPartError("No trial broke or collapsed.")
    return table


def stability_table(t: pd.DataFrame) -> pd.DataFrame:
    """One row per cell."""
    return pd.DataFrame(
        {
            **setting_columns(t),
            "ended": t["n"],
            "broken": t["broken"],
            "collapsed": t["collapsed"].where(t["judged"] > 0).astype("Int64"),
            **hundredths(t, share="unstable (%)", low="95 % from (%)", high="95 % to (%)"),
            "not counted": t["excluded"],
        }
    )


STABILITY = Part(
    "depth-stability",
    "Failed trainings",
    "How many trials of each setting broke, or collapsed.",
    prepare_stability,
    stability_table,
    if_any=True,
    method="Unstable: trials that diverged, ran out of memory or failed (broken), or completed at or below the "
    "best constant prediction or without a fall of the training loss (collapsed); exact 95 % interval (Clopper and "
    "Pearson). Lost, unavailable and pruned trials are not counted.",
)
