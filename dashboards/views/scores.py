"""Scores: what does freezing cost? The scores of all trials by what is frozen, and the differences to the baseline.

Where more than the freeze varies, how much each setting matters.
"""

from __future__ import annotations

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.depth_strip import STRIP
from dashboards.views.forest import FOREST, PANELS
from dashboards.views.importance import IMPORTANCE, MEANS
from dashboards.views.kit.cells import Shown, cells_of, hundredths, setting_columns, with_cells
from dashboards.views.kit.part import SHARED_CONTROLS, EmptyPartError, Part, View
from orchestrator.analysis.losses import instability
from orchestrator.analysis.summary import STATISTICS


def cells_table(info: Shown) -> pd.DataFrame:
    """One row per cell: mean, median, standard deviation, minimum, maximum and interval."""
    table = info.table
    shares = {name: f"{name} (%)" for name in ("mean", "median", "std", "min", "max")}
    shares |= {"std": "sd (points)", "low": "95 % from (%)", "high": "95 % to (%)"}
    return pd.DataFrame(
        {
            **setting_columns(table),
            "depth (layers)": table["depth"],
            "n": table["n"],
            "planned": table["planned"],
            **hundredths(table, **shares),
            **{
                statistic.label: table[statistic.label] for statistic in STATISTICS.values() if statistic.label in table
            },
        }
    )


TABLE = Part(
    "depth-table",
    "Mean, median, spread and range",
    "Scores on this dev set over the completed seeds of each setting; intervals are over seeds alone.",
    cells_of,
    cells_table,
    method="Standard deviations (sd) divide by n - 1. The 95 % interval of the mean is the wider of Student's t and "
    "the logit interval.",
    on_demand="Mean, median, spread and range of each setting",
    detail=True,
)


def prepare_stability(selection: Selection) -> pd.DataFrame:
    """How often training fails, over all trials that have ended.

    One row per cell, by train size and depth: `losses.instability` and `cells.KEYS`.
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


VIEW = View(
    "/scores",
    "Scores",
    "What does freezing cost?",
    (STRIP, FOREST, TABLE, PANELS, IMPORTANCE, MEANS, STABILITY),
    SHARED_CONTROLS,
)
