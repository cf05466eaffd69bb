"""Scores: what does freezing cost? The scores of all trials by what is frozen, and the differences to the baseline.

Where more than the freeze varies, how much each setting matters.
"""

from __future__ import annotations

import pandas as pd

from dashboards.views.depth_strip import STRIP
from dashboards.views.forest import FOREST
from dashboards.views.importance import IMPORTANCE
from dashboards.views.kit.cells import Shown, cells_of, hundredths, setting_columns
from dashboards.views.kit.part import SHARED_CONTROLS, Part, View
from orchestrator.analysis.summary import STATISTICS


def cells_table(info: Shown) -> pd.DataFrame:
    """One row per cell: `mean`, `median`, `std`, `min` and `max` in percent, and the interval of the mean."""
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


VIEW = View(
    "/scores",
    "Scores",
    "What does freezing cost?",
    (STRIP, FOREST, TABLE, IMPORTANCE),
    SHARED_CONTROLS,
)
