"""What figures of several views need: the cells of a selection in order, and where they stand on an axis."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.theme import Look, axis
from orchestrator.analysis.describe import describe_cells

KEYS = ["train_size", "cell", "freeze", "strategy", "depth", "embeddings", "n_layers"]
LABELLED = 16  # beyond so many places an axis names train sizes only
MOST_TICKS = 20  # and of these not more: Plotly measures and turns every word, 200 of them took over a second


class Cells(NamedTuple):
    """The cells of a selection.

    Attributes:
        table: One row a cell, by train size, depth, strategy and embeddings: `KEYS`, those of `describe_cells`, and
            `planned`.
        value_name: What is described.
        incomplete: In words, where trials are missing; else empty.
    """

    table: pd.DataFrame
    value_name: str
    incomplete: str


def cells_of(selection: Selection) -> Cells:
    """Every cell, described over its completed trials."""
    trials = selection.trials
    described = describe_cells(
        trials, ["cell"], selection.column
    )  # by one key: by all of them takes five times as long
    planned = trials["cell"].value_counts().rename("planned")
    table = (
        trials.drop_duplicates("cell")[KEYS]
        .merge(described, on="cell")
        .merge(planned, left_on="cell", right_index=True)
    )
    order = ["train_size", "depth", "strategy", "embeddings", "cell"]
    return Cells(table.sort_values(order, ignore_index=True), selection.value_name, selection.incomplete)


class Places(NamedTuple):
    """Where cells stand on an axis: a block a train size, in it a place a freeze.

    Attributes:
        at: Cell to its place.
        ticks, words: Of the axis.
        title: Of the axis.
    """

    at: dict[str, float]
    ticks: list[float]
    words: list[str]
    title: str


def places(table: pd.DataFrame) -> Places:
    """Places for the rows of `Cells.table`."""
    freezes = list(dict.fromkeys(table.sort_values(["depth", "strategy", "embeddings"])["freeze"]))
    sizes = sorted(table["train_size"].unique().tolist())
    index = {freeze: n for n, freeze in enumerate(freezes)}
    block = {size: n * (len(freezes) + 1) for n, size in enumerate(sizes)}
    at = {row.cell: float(block[row.train_size] + index[row.freeze]) for row in table.itertuples()}
    if len(at) <= LABELLED:
        words = [_tick(row.freeze, row.train_size, row.n, several=len(sizes) > 1) for row in table.itertuples()]
        return Places(at, list(at.values()), words, "frozen" + (", train size" if len(sizes) > 1 else ""))
    middle = (len(freezes) - 1) / 2
    named = sizes[:: -(-len(sizes) // MOST_TICKS)]
    return Places(
        at, [block[size] + middle for size in named], [f"{size:,}" for size in named], "train size (sentences)"
    )


def _tick(freeze: str, size: int, n: int, *, several: bool) -> str:
    return f"{freeze}<br>{size:,}<br>n={n}" if several else f"{freeze}<br>n={n}"


def colour(look: Look, depth: int, n_layers: int) -> str:
    """Of a depth; the baseline has the colour of the text."""
    return look.text if depth == 0 else look.depth(depth, n_layers)


def percent(values: pd.Series) -> list[float | None]:
    """Shares as percent, rounded to what a screen can show; None where there is none."""
    return [None if pd.isna(value) else round(100 * float(value), 4) for value in values]


def freeze_axis(spots: Places) -> dict[str, Any]:
    """The axis of places."""
    return axis(spots.title, tickvals=spots.ticks, ticktext=spots.words, showgrid=False)


def interval_bars(table: pd.DataFrame, look: Look) -> dict[str, Any]:
    """Intervals of the rows of `Cells.table`, upwards."""
    return {
        "type": "data",
        "symmetric": False,
        "array": percent(table["high"] - table["mean"]),
        "arrayminus": percent(table["mean"] - table["low"]),
        "color": look.text,
        "thickness": 1.5,
        "width": 5,
    }
