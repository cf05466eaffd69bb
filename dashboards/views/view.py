"""A page of the dashboard: which question it answers, with which parts and controls, and what else it shows or does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dash
from typing_extensions import TypedDict

from dashboards.data.frames import Snapshot
from dashboards.data.selection import Selection
from dashboards.views.part import Part
from dashboards.views.theme import Look

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

    @property
    def name(self) -> str:
        """A word for files: the address without its slash."""
        return self.path.strip("/") or "overview"
