"""A part of a view: a figure with its table, or a table alone. `prepare` computes, `draw` only draws.

A part's name is used in addresses and exports: `permafrost export depth-strip`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.theme import Figure, Look, empty_figure

Info = TypeVar("Info")


@dataclass(frozen=True)
class Part(Generic[Info]):
    """One figure or table.

    Attributes:
        name: Unique; part of addresses and file names.
        title: Its heading.
        caption: What it shows, in one line.
        prepare: Computes what is shown from the selected trials, as values that a test can compare.
        table: Turns these values into a table, with units in its column names.
        draw: Turns them into a figure; None for a table alone.
        why_empty: Why there is nothing to show; empty if there is something.
        method: How it was computed.
        any_state: Whether it shows trials in any state, so that it needs no completed one.
    """

    name: str
    title: str
    caption: str
    prepare: Callable[[Selection], Info]
    table: Callable[[Info], pd.DataFrame]
    draw: Callable[[Info, Look], Figure] | None = None
    why_empty: Callable[[Info], str] = lambda info: ""
    method: str = ""
    any_state: bool = False


@dataclass(frozen=True)
class Drawn:
    """A computed part.

    Attributes:
        figure: None for a table alone.
        make_table: Makes `table`.
        why_empty: Why there is nothing to show; empty if there is something.
    """

    figure: Figure | None
    make_table: Callable[[], pd.DataFrame]
    why_empty: str

    @cached_property
    def table(self) -> pd.DataFrame:
        """The figure in numbers, without rows if there is nothing to show; most figures are never asked for it."""
        return self.make_table()


def compute(part: Part[Any], selection: Selection, look: Look) -> Drawn:
    """A part for the selected trials."""
    words = "" if part.any_state and len(selection.trials) else why_empty(selection)
    if not words:
        info = part.prepare(selection)
        words = part.why_empty(info)
        if not words:
            return Drawn(_fitted(part.draw(info, look)) if part.draw else None, partial(part.table, info), "")
    return Drawn(empty_figure(look, words) if part.draw else None, pd.DataFrame, words)


def _fitted(figure: Figure) -> Figure:
    """The figure with margins for its legend and axes: where Plotly has to make room itself, it draws twice.

    Legend entries are as wide as the longest name: Plotly's own estimate wraps or overlaps on a phone.
    """
    drawn = figure["layout"]
    margin, legend = drawn.get("margin"), drawn.get("legend")
    named = [trace for trace in figure["data"] if trace.get("showlegend", True) and "name" in trace]
    if margin is None:
        return figure
    if legend is not None and named:
        legend["entrywidth"] = 14 + 6.5 * min(max(len(str(trace["name"])) for trace in named), 40)
        margin["t"] = max(margin["t"], 20 + _legend_height(figure["data"], named, legend["entrywidth"]))
    if any("colorbar" in trace for trace in figure["data"]):
        margin["r"] = max(margin["r"], _COLORBAR)
    return figure


# Pixels, as Plotly lays out a legend on a usual screen; on others it makes room itself.
_WIDTH, _SYMBOL, _LINE, _BETWEEN_GROUPS, _COLORBAR = 1140, 45, 19, 10, 96


def _legend_height(data: Sequence[Any], named: Sequence[Any], entry_width: float) -> float:
    shown = len(named) > 1 or (len(data) > 1 and bool(named))  # a figure with one trace has no legend
    if not shown:
        return 0
    rows = -(-len(named) // max(1, int(_WIDTH // (entry_width + _SYMBOL))))
    grouped = any("legendgroup" in trace for trace in named)
    return rows * (_LINE + _BETWEEN_GROUPS) if grouped else rows * _LINE + _BETWEEN_GROUPS


def why_empty(selection: Selection) -> str:
    """Why no figure can show anything, and what to do; empty if one may."""
    if selection.sweep is None:
        return "This store has no sweep yet. Run one: permafrost launch"
    if not len(selection.trials):
        return "The filters exclude every trial. Remove one."
    if not len(selection.completed):
        states = selection.trials["state"].value_counts()
        counts = ", ".join(f"{n:,} {state.replace('_', ' ')}" for state, n in states.items())
        return f"No trial has completed yet: {counts}. Overview lists the reasons; run the launch command to resume."
    return ""
