"""Mean scores of the settings: bars, and a table of mean, median, spread and range."""

from __future__ import annotations

import pandas as pd

from dashboards.views.cells import Cells, cells_of, setting_columns
from dashboards.views.part import Part
from orchestrator.analysis.statistic import STATISTICS


def cells_table(info: Cells) -> pd.DataFrame:
    """One row per cell: mean, median, standard deviation, minimum, maximum and interval."""
    table = info.table
    shares = {name: 100 * table[name] for name in ("mean", "median", "std", "min", "max", "low", "high")}
    names = {"std": "sd (points)", "low": "95 % from (%)", "high": "95 % to (%)"}
    return pd.DataFrame(
        {
            **setting_columns(table),
            "depth (layers)": table["depth"],
            "n": table["n"],
            "planned": table["planned"],
            **{names.get(name, f"{name} (%)"): values.round(4) for name, values in shares.items()},
            **{one.label: table[one.label] for one in STATISTICS.values() if one.label in table},
        }
    )


TABLE = Part(
    "depth-table",
    "Mean, median, spread and range",
    "Scores over the completed seeds of each setting.",
    cells_of,
    cells_table,
    method="Standard deviations (sd) divide by n - 1. The 95 % interval of the mean is the wider of Student's t and "
    "the logit interval.",
)
