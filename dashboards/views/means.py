"""Mean scores of the settings: bars, and a table of mean, median, spread and range."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.cells import Cells, cells_of, places, setting_columns
from dashboards.views.drawing import bar_marker, cell_name, freeze_name, interval_bars, name, numbers, without_few
from dashboards.views.part import Part
from dashboards.views.published import Overlay, overlay, published_columns, published_traces
from dashboards.views.theme import Figure, Look, axis, layout
from orchestrator.analysis.statistic import STATISTICS


class Bars(NamedTuple):
    """Mean scores and the published numbers that may be shown with them."""

    cells: Cells
    published: Overlay


def prepare_bars(selection: Selection) -> Bars:
    """Means of all cells."""
    return Bars(cells_of(selection), overlay(selection))


def draw_bars(info: Bars, look: Look) -> Figure:
    """Bars from zero: a cut axis would make small differences look large."""
    spots = places(info.cells.table)
    data: list[dict[str, Any]] = []
    for _, rows in without_few(info.cells.table).groupby("freeze", sort=False):
        first = next(rows.itertuples())
        customdata = [[name(freeze_name(row.freeze)), row.n, row.train_size] for row in rows.itertuples()]
        bars = {
            "type": "bar",
            "name": cell_name(first, several=False),
            "x": [spots.at[cell] for cell in rows["cell"]],
            "y": numbers(rows["mean"], 100),
            "error_y": interval_bars(rows, look.text, scale=100),
            "marker": bar_marker(look, first),
            "customdata": customdata,
            "hovertemplate": "%{y:.2f} %<br>%{customdata[0]}, n=%{customdata[1]}<extra></extra>",
        }
        data.append(bars)
    data += published_traces(info.published, spots.at, look)
    y = axis(f"mean {info.cells.value_name} (%)", rangemode="tozero")
    return {"data": data, "layout": layout(look, x=spots.axis(), y=y, bargap=0.25, barmode="overlay")}


def bars_table(info: Bars) -> pd.DataFrame:
    """One row per cell, with published numbers."""
    return cells_table(info.cells).assign(**published_columns(info.published, info.cells.table["cell"]))


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


BARS = Part(
    "depth-bars",
    "Mean score by setting",
    "Mean score of each setting, with 95 % intervals from three seeds on.",
    prepare_bars,
    bars_table,
    draw_bars,
    method="The interval is the wider of Student's t and the logit interval. Hollow diamonds: published numbers for "
    "the same metric, split, corpus and train size.",
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
