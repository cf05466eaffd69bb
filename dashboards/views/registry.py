"""Every view by its path, and every part by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from dashboards.views.part import Part

_SHARED = ("sweep", "corpus", "model", "setup", "size", "strategy", "embeddings", "metric", "split")


@dataclass(frozen=True)
class View:
    """A page.

    Attributes:
        path: Of its address.
        name: In the navigation.
        question: That it answers.
        modules: Of `dashboards.views`, whose parts it shows in order.
        controls: Fields of the query that it lets one set.
        has_more: Whether it shows something besides its parts (`pages.extra`).
    """

    path: str
    name: str
    question: str
    modules: tuple[str, ...]
    controls: tuple[str, ...] = _SHARED
    has_more: bool = False

    @property
    def parts(self) -> tuple[Part[Any], ...]:
        """What it shows."""
        found = (import_module(f"dashboards.views.{name}").PARTS for name in self.modules)
        return tuple(part for parts in found for part in parts)


VIEWS: Mapping[str, View] = {
    view.path: view
    for view in (
        View("/", "Overview", "Is the sweep complete and sane?", ("overview",), has_more=True),
        View(
            "/depth",
            "Depth",
            "What does freezing cost?",
            ("depth", "published", "factors"),
            (*_SHARED, "study", "axis"),
        ),
        View("/curves", "Curves", "How fast does it converge?", ("curves",), (*_SHARED, "axis")),
        View("/cost", "Cost", "What does freezing save?", ("cost",), (*_SHARED, "cost")),
        View(
            "/choose",
            "Choose",
            "How many layers do I freeze?",
            ("choose",),
            (*_SHARED, "tolerance", "cost", "budget"),
            has_more=True,
        ),
        View("/tags", "Tags", "Which labels suffer?", ("tags",), (*_SHARED, "freeze", "level")),
        View("/trials", "Trials", "Which trials are there?", (), (*_SHARED, "state"), has_more=True),
        View(
            "/report",
            "Report",
            "What goes into the paper?",
            (),
            (*_SHARED, "study", "tolerance", "cost"),
            has_more=True,
        ),
    )
}


def find_part(name: str) -> Part[Any] | None:
    """The part of that name; looked up, never made into a path or a module."""
    for view in VIEWS.values():
        for part in view.parts:
            if part.name == name:
                return part
    return None
