"""A part of a view: a figure with its table, or a table alone. `prepare` computes, `draw` only draws.

A part's name is used in addresses and exports: `permafrost export figure depth-strip`.

For a phone, what is written in a figure is shortened, broken into lines or turned, so that nothing overlaps. Layer
strips alone name settings along an axis; the table and what a finger touches have the words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, cast

import dash
import pandas as pd
from typing_extensions import TypedDict

from dashboards.data.frames import Snapshot
from dashboards.data.selection import Selection
from dashboards.views.kit.drawing import BESIDE_ROWS, NARROW_TEXT
from dashboards.views.kit.theme import Figure, Look, empty_figure
from orchestrator.analysis.cells import FROZEN, TRAINED

_FONT = 10  # pixels of tick labels, the least that one reads
_ROOM = 280  # pixels between the ends of an x axis
_LETTER, _SQUARE = 5.6, 9.5  # mean widths in that font
_LABEL_GAP = 8  # pixels between two labels, so that two strips are not read as one
ROW, LEAST_HEIGHT = 30, 160  # pixels that a label of two lines takes, and that any figure needs
_STRIP = re.compile(f"[{FROZEN}{TRAINED}][{FROZEN}{TRAINED} ]*")


def narrowed(figure: Figure) -> Figure:
    """The figure with labels and titles that a narrow screen has room for; changed in place."""
    drawn = figure["layout"]
    for trace in figure["data"]:
        if "text" in str(trace.get("mode", "")) and isinstance(trace.get("text"), list):
            trace["text"] = [_strip_of(label) for label in trace["text"]]
            trace["textfont"] = {"size": _FONT, **trace.get("textfont", {})}
    axes = [key for key in drawn if key.startswith(("xaxis", "yaxis"))]
    for key in axes:
        drawn[key] = {**drawn[key], "tickfont": {"size": _FONT}}
        if key.startswith("xaxis") and "ticktext" in drawn[key]:
            drawn[key] |= _x_labels(drawn[key]["ticktext"])
    has_rows = _rows(figure)
    for key in axes:
        if title := drawn[key].get("title"):
            width = BESIDE_ROWS if has_rows and key == "xaxis" else NARROW_TEXT
            drawn[key]["title"] = {**title, "text": _broken(title["text"], width), "font": {"size": 12}}
    return figure


def _x_labels(labels: Sequence[str]) -> dict[str, Any]:
    """The labels side by side where they fit, else turned, a line each."""
    short = [[_strip_of(line) for line in label.split("<br>") if not _is_words(line)] for label in labels]
    lines = short if all(short) else [label.split("<br>") for label in labels]
    widest = max((_width(line) for label in lines for line in label), default=0)
    if (widest + _LABEL_GAP) * len(labels) <= _ROOM:
        return {"ticktext": ["<br>".join(label) for label in lines], "tickangle": 0}
    return {"ticktext": [" ".join(label) for label in lines], "tickangle": -90}


def _is_words(line: str) -> bool:
    """Whether a line only says in words what the strip above it shows."""
    return not (_STRIP.search(line) or line.startswith("n=") or line.replace(",", "").isdigit())


def _rows(figure: Figure) -> bool:
    """Row labels in two lines, the strip above its words, and a margin with room for them. Whether there are any."""
    drawn = figure["layout"]
    rows = drawn.get("yaxis", {})
    labels = rows.get("ticktext")
    if labels is None and rows.get("type") == "category" and figure["data"]:
        labels = list(dict.fromkeys(str(word) for word in figure["data"][0].get("y", ())))
        rows |= {"tickvals": labels}
    if not labels or "margin" not in drawn:
        return False
    two = [_STRIP.sub(lambda match: f"{match.group().rstrip()}<br>", label, count=1) for label in labels]
    rows |= {"ticktext": two, "automargin": False}
    widest = max(_width(line) for label in two for line in label.split("<br>"))
    drawn["margin"] = {**drawn["margin"], "l": 14 + min(widest, 150) + (20 if rows.get("title") else 0)}
    return True


def _strip_of(label: str) -> str:
    """The strip of a label that has one, else the label."""
    match = _STRIP.search(label)
    return match.group().rstrip() if match else label


def _width(line: str) -> float:
    squares = line.count(FROZEN) + line.count(TRAINED)
    return _SQUARE * squares + _LETTER * (len(line) - squares)


def _broken(title: str, width: int) -> str:
    """A title in lines; a part that is markup, as a note is, stays as it is."""
    lines: list[str] = []
    for part in title.split("<br>"):
        words = part.split(" ") if "<" not in part and "&" not in part else [part]
        line = ""
        for word in words:
            if line and len(line) + 1 + len(word) > width:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}" if line else word
        lines.append(line)
    return "<br>".join(lines)


Info = TypeVar("Info")


class EmptyPartError(Exception):
    """Why there is nothing to show, in words, and what to do about it."""


@dataclass(frozen=True)
class Part(Generic[Info]):
    """One figure or table.

    Attributes:
        name: Unique; part of addresses and file names.
        caption: What it shows, in one line.
        prepare: Computes what is shown from the selected trials, as values that a test can compare. Raises
            EmptyPartError where there is nothing to show.
        table: Turns these values into a table, with units in its column names; by default they are one.
        draw: Turns them into a figure; None for a table alone.
        body: Turns the values into components that a page shows in place of the table; files have the table.
        note: What its table leaves out, and why, as one line below it on every surface; empty if nothing.
        shows: The trials that it shows, of those that a page selects: files name their source.
        any_state: Whether it shows trials in any state, so that it needs no completed one.
        of_store: Whether it shows more than what is selected, so that a report has it once, in its summary.
        if_any: On a page it is left out if it has nothing to show.
        detail: Whether a report has it behind what is printed.
        on_demand: On a page it opens, and is only then asked for, by these words; empty if it is there at once.
    """

    name: str
    title: str
    caption: str
    prepare: Callable[[Selection], Info]
    table: Callable[[Info], pd.DataFrame] = lambda info: cast("pd.DataFrame", info)
    draw: Callable[[Info, Look], Figure] | None = None
    method: str = ""
    body: Callable[[Info, Look], Any] | None = None
    note: Callable[[Info], str] = lambda info: ""
    shows: Callable[[Selection], Selection] = lambda selection: selection
    any_state: bool = False
    of_store: bool = False
    if_any: bool = False
    detail: bool = False
    on_demand: str = ""


@dataclass(frozen=True)
class Drawn:
    """A computed part.

    Attributes:
        figure: None for a table alone.
        make_table: Makes `table`.
        make_body: Makes what a page shows in place of the table; None if it shows the table.
    """

    figure: Figure | None
    make_table: Callable[[], pd.DataFrame]
    why_empty: str
    make_body: Callable[[], Any] | None = None
    note: str = ""

    @cached_property
    def table(self) -> pd.DataFrame:
        """The figure in numbers, without rows if there is nothing to show; most figures are never asked for it."""
        return self.make_table()


def compute(part: Part[Any], selection: Selection, look: Look) -> Drawn:
    """A part for the selected trials."""
    try:
        if reason := "" if part.any_state and len(selection.trials) else why_empty(selection):
            raise EmptyPartError(reason)
        info = part.prepare(selection)
    except EmptyPartError as error:
        return Drawn(empty_figure(look, str(error)) if part.draw else None, pd.DataFrame, str(error))
    figure = _fitted(part.draw(info, look), look) if part.draw else None
    body = partial(part.body, info, look) if part.body else None
    return Drawn(figure, partial(part.table, info), "", body, part.note(info))


def _fitted(figure: Figure, look: Look) -> Figure:
    """The figure with margins for its legend and axes: where Plotly has to make room itself, it draws twice.

    Legend entries are as wide as the longest name: Plotly's own estimate wraps or overlaps on a phone.
    """
    if look.narrow:
        narrowed(figure)
    drawn = figure["layout"]
    margin, legend = drawn.get("margin"), drawn.get("legend")
    named = [trace for trace in figure["data"] if trace.get("showlegend", True) and "name" in trace]
    if margin is None:
        return figure
    if legend is not None and named and drawn.get("showlegend", True):
        legend["entrywidth"] = 14 + max(_words_width(str(trace["name"])) for trace in named)
        margin["t"] = max(margin["t"], 20 + _legend_height(figure["data"], named, legend["entrywidth"], look))
    if look.narrow:  # what the legend and the notes take is no room for the rows
        rows = len(drawn["yaxis"].get("ticktext", ()))
        drawn["height"] = max(drawn["height"], margin["t"] + margin["b"] + max(LEAST_HEIGHT, ROW * rows))
    if any("colorbar" in trace for trace in figure["data"]):
        margin["r"] = max(margin["r"], _COLORBAR)
    return figure


def _words_width(label: str) -> float:
    """Pixels that a name takes in a legend; the squares of a layer strip are wider than letters."""
    return 6.5 * min(len(label), 48) + 5.0 * sum(label.count(square) for square in (FROZEN, TRAINED))


# Pixels, as Plotly lays out a legend on a usual screen; on others it makes room itself.
_WIDTH, _NARROW, _SYMBOL, _LINE, _BETWEEN_GROUPS, _COLORBAR = 1140, 270, 45, 19, 10, 96


def _legend_height(data: Sequence[Any], named: Sequence[Any], entry_width: float, look: Look) -> float:
    shown = len(named) > 1 or (len(data) > 1 and bool(named))  # a figure with one trace has no legend
    if not shown:
        return 0
    rows = -(-len(named) // max(1, int((_NARROW if look.narrow else _WIDTH) // (entry_width + _SYMBOL))))
    grouped = any("legendgroup" in trace for trace in named)
    return rows * (_LINE + _BETWEEN_GROUPS) if grouped else rows * _LINE + _BETWEEN_GROUPS


def why_empty(selection: Selection) -> str:
    """Why no figure can show anything, and what to do; empty if one may."""
    if selection.sweep is None:
        return "This store has no planned trial yet. Run a sweep: permafrost launch"
    if not len(selection.trials):
        return "The filters exclude every trial. Remove one."
    if not len(selection.completed):
        states = selection.trials["state"].value_counts()
        counts = ", ".join(f"{n:,} {state.replace('_', ' ')}" for state, n in states.items())
        return f"No trial has completed yet: {counts}. Answer lists the reasons; run the launch command to resume."
    return ""


# A page of the dashboard: which question it answers, with which parts and controls, and what else it shows or does.

SHARED_CONTROLS = ("sweep", "corpus", "model", "setup", "size", "strategy", "embeddings", "metric", "split")


class PageState(TypedDict):
    """What a browser shows.

    Attributes:
        scheme: A key of `theme.LOOKS`.
    """

    path: str
    search: str
    scheme: str


@dataclass(frozen=True)
class ItemPage:
    """The page of one item that a view lists, e.g. of one trial.

    Attributes:
        prefix: First part of its address: `/trial` for `/trial/0123456789abcdef`.
        build: Returns the page's components from the store, the item's name and the colours; it says so itself if there
            is no such item.
    """

    prefix: str
    build: Callable[[Snapshot, str, Look], Any]


@dataclass(frozen=True)
class View:
    """One page and its entry in the navigation.

    Attributes:
        title: Name in the navigation and heading of the page.
        parts: Figures and tables, in order.
        controls: Fields of the page query that can be set on it.
        content: Returns the components above the parts; None if there are only parts.
        content_ignores: Fields of the page query that these components do not depend on.
        add_callbacks: Registers callbacks of its own; they look up what a page selects with the function passed.
        item_page: The page of one of its items.
        shows: The trials that it shows, of those that the address selects.
        of_all: Fields of the page query of which it shows all values unless the address names one.
        why_dimmed: Why the page has nothing to show for a store; empty if it has.
        takes_in: Older addresses that lead here.
        in_navigation: Whether the navigation names it; others are reached from a page.
    """

    path: str
    title: str
    question: str
    parts: tuple[Part[Any], ...] = ()
    controls: tuple[str, ...] = SHARED_CONTROLS
    content: Callable[[Selection], Any] | None = None
    content_ignores: tuple[str, ...] = ()
    add_callbacks: Callable[[dash.Dash, Callable[[str], Selection]], None] | None = None
    item_page: ItemPage | None = None
    shows: Callable[[Selection], Selection] = lambda selection: selection
    of_all: tuple[str, ...] = ()
    why_dimmed: Callable[[Selection], str] = why_empty
    takes_in: tuple[str, ...] = ()
    in_navigation: bool = True

    @property
    def name(self) -> str:
        """A word for files: the address without its slash."""
        return self.path.strip("/") or "answer"
