"""The parts of a page, each a figure with its table or a table alone, and the pages that show them.

`prepare` computes, `draw` only draws. A part's name is used in addresses and exports:
`permafrost export figure depth-strip`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, cast

import dash
import pandas as pd
from pydantic import BaseModel

from dashboards.data.frames import Snapshot
from dashboards.data.selection import Selection
from dashboards.views.kit.drawing import Figure, Look, empty_figure

Info = TypeVar("Info")


ONLY_BASELINE = "Only the baseline is here, so there is nothing to compare with it."
NO_PAIRS = "No trial has a completed baseline with the same seed. Run the baseline (freeze: none)."


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
        of_store: Whether it shows more than what is selected, so that a report leaves it out.
        if_any: On a page it is left out if it has nothing to show.
        reading: How to read its figure: what is seen, and what it means. On a page they stand in place of the caption.
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
    reading: Sequence[tuple[str, str]] = ()
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
        """The figure in numbers, with the columns of its part; no rows if there is nothing to show. Made when asked
        for.
        """
        return self.make_table()


def compute(part: Part[Any], selection: Selection, look: Look) -> Drawn:
    """A part for the selected trials."""
    try:
        if reason := "" if part.any_state and len(selection.trials) else empty_reason(selection):
            raise EmptyPartError(reason)
        info = part.prepare(selection)
    except EmptyPartError as error:
        return Drawn(empty_figure(look, str(error)) if part.draw else None, pd.DataFrame, str(error))
    figure = part.draw(info, look) if part.draw else None
    body = partial(part.body, info, look) if part.body else None
    return Drawn(figure, partial(part.table, info), "", body, part.note(info))


def empty_reason(selection: Selection) -> str:
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


SHARED_CONTROLS = ("sweep", "corpus", "model", "setup", "size", "strategy", "embeddings", "metric", "split")


class PageState(BaseModel):
    """What a browser shows.

    Attributes:
        scheme: A key of `drawing.LOOKS`.
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
        resolved: A selection with what this page chooses where the address leaves it open.
        of_all: Fields of the page query of which it shows all values unless the address names one.
        why_dimmed: Why the page has nothing to show for a store; empty if it has.
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
    resolved: Callable[[Selection], Selection] = lambda selection: selection
    of_all: tuple[str, ...] = ()
    why_dimmed: Callable[[Selection], str] = empty_reason
    in_navigation: bool = True

    @property
    def name(self) -> str:
        """A word for files: the address without its slash."""
        return self.path.strip("/") or "answer"
