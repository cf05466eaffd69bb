"""The means of cells: bars, and the table of mean, median, spread and range."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.cells import Cells, cells_of, freeze_axis, interval_bars, percent, places
from dashboards.views.marks import name
from dashboards.views.part import Part
from dashboards.views.published import Overlay, overlay, published_columns, published_traces
from dashboards.views.theme import Figure, Look, axis, layout


class Bars(NamedTuple):
    """What `Cells` has, and the numbers of studies that may stand beside it."""

    table: pd.DataFrame
    value_name: str
    incomplete: str
    published: Overlay


def prepare_bars(selection: Selection) -> Bars:
    """Means of the cells."""
    return Bars(*cells_of(selection), overlay(selection))


def draw_bars(info: Bars, look: Look) -> Figure:
    """Bars from zero: a cut axis would make small differences look large."""
    spots = places(info.table)
    data: list[dict[str, Any]] = []
    for strategy, rows in info.table.groupby("strategy", sort=False):
        bars = {
            "type": "bar",
            "name": name(str(strategy).replace("_", " ")),
            "x": [spots.at[cell] for cell in rows["cell"]],
            "y": percent(rows["mean"]),
            "error_y": interval_bars(rows.assign(**_hidden(rows)), look),
            "marker": {
                "color": look.strategy(str(strategy))[0],
                "pattern": {"shape": _PATTERNS.get(str(strategy), "")},
            },
            "customdata": rows.assign(freeze=rows["freeze"].map(name))[["freeze", "n", "train_size"]]
            .to_numpy()
            .tolist(),
            "hovertemplate": "%{y:.2f} %<br>%{customdata[0]}, n=%{customdata[1]}<extra></extra>",
        }
        data.append(bars)
    data += published_traces(info.published, spots.at, look)
    y = axis(f"mean {info.value_name} (%)", rangemode="tozero")
    return {"data": data, "layout": layout(look, x=freeze_axis(spots), y=y, bargap=0.25)}


_PATTERNS = {"first_k": "/", "last_k": "\\", "alternating": "x", "all_encoder": ".", "layers": "-"}


def _hidden(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """No interval below three seeds."""
    return {end: rows[end].where(~rows["dots_only"]) for end in ("low", "high")}


def bars_table(info: Bars) -> pd.DataFrame:
    """That of the cells, and what studies say of them."""
    cells = Cells(info.table, info.value_name, info.incomplete)
    return cells_table(cells).assign(**published_columns(info.published, info.table["cell"]))


def cells_table(info: Cells) -> pd.DataFrame:
    """Mean, median (50 %), standard deviation, least and most of each cell, as the fourth study prints them."""
    table = info.table
    shares = {name: 100 * table[name] for name in ("mean", "median", "std", "min", "max", "low", "high")}
    names = {"median": "50% (%)", "low": "95 % from (%)", "high": "95 % to (%)"}
    return pd.DataFrame(
        {
            "train size (sentences)": table["train_size"],
            "frozen": table["freeze"],
            "depth (layers)": table["depth"],
            "n": table["n"],
            "planned": table["planned"],
            **{names.get(name, f"{name} (%)"): values.round(4) for name, values in shares.items()},
        }
    )


BARS = Part(
    "depth-bars",
    "Mean by strategy",
    "Bars from zero, with 95 % intervals from three seeds on. Hollow diamonds: published numbers of the same metric, "
    "split, corpus and train size.",
    prepare_bars,
    bars_table,
    draw_bars,
)
TABLE = Part(
    "depth-table",
    "Mean, median, spread and range",
    "Over the completed seeds of each cell; standard deviation with n-1.",
    cells_of,
    cells_table,
)
