"""A part of a view: a figure with its table, or a table alone. `prepare` computes, `draw` only draws.

Every part is registered under a name that addresses and exports use: `permafrost export depth-strip`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.theme import Figure, Look, message

Info = TypeVar("Info")


@dataclass(frozen=True)
class Part(Generic[Info]):
    """One figure or table.

    Attributes:
        name: In addresses and file names.
        title: Above it.
        about: Below it: what is drawn, over what, and how intervals were made.
        prepare: From the selected trials to what is shown, as values that a test compares.
        draw: From there to a figure; None for a table alone.
        table: From there to the table that says the same in numbers, with units in its column names.
        empty: What to say where there is nothing to show; empty where there is something.
        about_states: Whether it tells of trials in any state, and so of those of a sweep without a complete one.
    """

    name: str
    title: str
    about: str
    prepare: Callable[[Selection], Info]
    table: Callable[[Info], pd.DataFrame]
    draw: Callable[[Info, Look], Figure] | None = None
    empty: Callable[[Info], str] = lambda info: ""
    about_states: bool = False


@dataclass(frozen=True)
class Drawn:
    """A part that was computed.

    Attributes:
        figure: None for a table alone.
        make_table: Gives `table`.
        empty: Why there is nothing; empty if there is something.
    """

    figure: Figure | None
    make_table: Callable[[], pd.DataFrame]
    empty: str

    @cached_property
    def table(self) -> pd.DataFrame:
        """Without rows where there is nothing to show; made when it is asked for, as most figures' never are."""
        return self.make_table()


def compute(part: Part[Any], selection: Selection, look: Look) -> Drawn:
    """A part of what is selected."""
    words = "" if part.about_states and len(selection.trials) else why_empty(selection)
    if not words:
        info = part.prepare(selection)
        words = part.empty(info)
        if not words:
            return Drawn(_fitted(part.draw(info, look)) if part.draw else None, partial(part.table, info), "")
    return Drawn(message(look, words) if part.draw else None, pd.DataFrame, words)


def _fitted(figure: Figure) -> Figure:
    """With room for its legend and the words at its axes, as Plotly draws all of a figure again where it has to make
    room itself, which doubles the time of the first drawing.

    Places in the legend are as wide as its longest name: Plotly's own estimate wraps or overlaps on a phone.
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


# As Plotly lays a legend out in the page's width of a usual screen (pixels); elsewhere it makes room itself.
_WIDTH, _SYMBOL, _LINE, _BETWEEN_GROUPS, _COLORBAR = 1140, 45, 19, 10, 96


def _legend_height(data: Sequence[Any], named: Sequence[Any], entry_width: float) -> float:
    shown = len(named) > 1 or (len(data) > 1 and bool(named))  # a figure of one trace has none
    if not shown:
        return 0
    rows = -(-len(named) // max(1, int(_WIDTH // (entry_width + _SYMBOL))))
    grouped = any("legendgroup" in trace for trace in named)
    return rows * (_LINE + _BETWEEN_GROUPS) if grouped else rows * _LINE + _BETWEEN_GROUPS


def why_empty(selection: Selection) -> str:
    """Why there can be nothing in any figure, and the next command; empty if there may be something."""
    if selection.sweep is None:
        return "This store has no sweep yet. Run one: permafrost launch"
    if not len(selection.trials):
        return "No trial is selected: take a filter back."
    if not len(selection.completed):
        states = selection.trials["state"].value_counts()
        told = ", ".join(f"{n} {state.replace('_', ' ')}" for state, n in states.items())
        return f"No trial is complete yet: {told}. See Overview for reasons; the same launch command goes on."
    return ""
