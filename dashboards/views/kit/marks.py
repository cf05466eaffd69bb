"""Marks of figures: colours and symbols of settings, intervals, means, the rows of a forest plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from dashboards.views.kit.axes import rows_layout
from dashboards.views.kit.labels import numbers
from dashboards.views.kit.theme import Figure, Look, axis, vertical_line


def cell_colour(look: Look, row: Any) -> str:
    """Colour of a row with `cell`, `baseline`, `depth` and `n_layers`: its depth's; the baseline has the text's."""
    return look.text if row.cell == row.baseline else look.depth(int(row.depth), int(row.n_layers))


def cell_symbol(look: Look, row: Any) -> str:
    """Symbol of a row with `strategy` and `embeddings`: hollow if the embeddings are frozen."""
    symbol = look.strategy(str(row.strategy))[1]
    return f"{symbol}-open" if row.embeddings else symbol


def interval_bars(table: pd.DataFrame, colour: str, *, scale: float = 1.0, thickness: float = 1.5) -> dict[str, Any]:
    """Error bars from the columns `mean`, `low` and `high`; none where an end is NaN.

    Plotly draws the caps of a bar that is not there, as if one trial were very sure: without any bar, none are drawn.
    """
    return {
        "type": "data",
        "visible": bool((table["low"].notna() & table["high"].notna()).any()),
        "symmetric": False,
        "array": numbers(table["high"] - table["mean"], scale),
        "arrayminus": numbers(table["mean"] - table["low"], scale),
        "color": colour,
        "thickness": thickness,
        "width": 4,
    }


def without_few(table: pd.DataFrame) -> pd.DataFrame:
    """A table of `describe_cells` without the intervals that rest on too few trials to be drawn."""
    return table.assign(**{end: table[end].where(table["dots_only"].eq(False)) for end in ("low", "high")})


def mean_marks(x: Sequence[float], table: pd.DataFrame, look: Look, *, scale: float = 1.0, **more: Any) -> Figure:
    """Short lines at the means of a table with `mean`, `low` and `high`, with their intervals."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "mean, 95 % interval",
        "x": list(x),
        "y": numbers(table["mean"], scale),
        "error_y": interval_bars(table, look.text, scale=scale),
        "marker": {"symbol": "line-ew-open", "size": 16, "color": look.text, "line": {"width": 2}},
        **more,
    }


class Diamonds(NamedTuple):
    """Rows of a forest plot.

    Attributes:
        labels: Of the rows, from the top; escaped.
        hover: What each says; the first field is its name.
    """

    labels: list[str]
    filled: Sequence[bool]
    colours: Sequence[str] | str
    hover: list[list[Any]]
    template: str


def forest_plot(
    table: pd.DataFrame, marks: Diamonds, look: Look, x_title: str, *, shapes: Sequence[dict[str, Any]] = ()
) -> Figure:
    """Losses with their intervals, a row each, and a line at zero.

    Args:
        table: `loss`, `low` and `high` of each row, in points.
        shapes: Drawn below the rows.
    """
    trace = {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "name": "difference",
        "x": numbers(table["loss"]),
        "y": list(range(len(table))),
        "error_x": interval_bars(table.assign(mean=table["loss"]), look.muted),
        "marker": {
            "symbol": ["diamond" if filled else "diamond-open" for filled in marks.filled],
            "size": 11,
            "color": marks.colours,
            "line": {"width": 1.5, "color": look.text},
        },
        "customdata": marks.hover,
        "hovertemplate": marks.template,
    }
    lines = [*shapes, vertical_line(look)]
    return {"data": [trace], "layout": rows_layout(look, axis(x_title), marks.labels, shapes=lines)}
