"""What callbacks ask: the store as it is now, and what of it a URL selects."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dashboards.frames import Frames, Snapshot
from dashboards.query import Query, parse_query
from dashboards.selection import Selection, select
from dashboards.theme import DARK, LIGHT, Look
from dashboards.views.part import Drawn, Part, compute
from dashboards.views.registry import VIEWS

_APART_S = 0.01


class Screen:
    """What callbacks ask: the store as it is now, and what of it a URL selects.

    Attributes:
        frames: The store.
    """

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self._turn = threading.Lock()
        self._select = lru_cache(maxsize=8)(self._selected)

    def look(self) -> Snapshot:
        """The store now; as it was, where it does not answer."""
        return self.frames.refresh()

    def select(self, search: str) -> Selection:
        """The trials that a URL selects."""
        query, notices_ = parse_query(search)
        return self._select(self.look(), query.but(theme="auto", pause=False), notices_)

    @staticmethod
    def _selected(snapshot: Snapshot, query: Query, notices_: tuple[str, ...]) -> Selection:
        found = select(snapshot, query)
        return replace(found, notices=(*notices_, *found.notices))

    def drawn(self, part: Part[Any], state: Mapping[str, str]) -> Drawn:
        """A part, with what keeps zoom and hidden traces while the store goes on, and forgets them with the query."""
        time.sleep(
            _APART_S * _place(part, state["path"])
        )  # they ask all at once, and the upper ones are looked at first
        with self._turn:  # one after the other: side by side they would all be done last
            found = compute(part, self.select(state["search"]), look_of(state))
        if found.figure is not None:
            found.figure["layout"]["uirevision"] = f"{state['path']}{state['search']}"
        return found


def _place(part: Part[Any], path: str) -> int:
    """How many parts of its page stand above it."""
    parts = VIEWS[path].parts if path in VIEWS else ()
    return parts.index(part) if part in parts else 0


def look_of(state: Mapping[str, str]) -> Look:
    """The colours that a page asks for."""
    return DARK if state.get("scheme") == "dark" else LIGHT
