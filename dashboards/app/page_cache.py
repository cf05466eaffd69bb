"""What callbacks ask: the store as it is now, and what of it a URL selects."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dashboards.data.frames import Frames, Snapshot
from dashboards.data.page_query import Query, parse_query
from dashboards.data.selection import Selection, select
from dashboards.views.part import Drawn, Part, compute
from dashboards.views.registry import PARTS
from dashboards.views.theme import DARK, LIGHT, Look

_SELECTIONS, _DRAWN = 4, 12  # kept of the newest snapshot; of a large store one takes some megabytes


class Screen:
    """What callbacks ask: the store as it is now, and what of it a URL selects.

    Attributes:
        frames: The store.
    """

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self._turn, self._looking = threading.Lock(), threading.Lock()
        self._seen: Snapshot | None = None
        self._select = lru_cache(_SELECTIONS)(self._selected)
        self._draw = lru_cache(_DRAWN)(self._computed)

    def look(self) -> Snapshot:
        """The store now; as it was, where it does not answer. What was made of an older one is let go."""
        found = self.frames.refresh()
        with self._looking:
            if found is not self._seen:
                self._select.cache_clear()
                self._draw.cache_clear()
                self._seen = found
        return found

    def select(self, search: str) -> Selection:
        """The trials that a URL selects."""
        return self._select(self.look(), *_asked(search))

    @staticmethod
    def _selected(snapshot: Snapshot, query: Query, notices_: tuple[str, ...]) -> Selection:
        found = select(snapshot, query)
        return replace(found, notices=(*notices_, *found.notices))

    def drawn(self, part: Part[Any], state: Mapping[str, str]) -> Drawn:
        """A part, with what keeps zoom and hidden traces while the store goes on, and forgets them with the query.

        Args:
            part: Any.
            state: `search` and `scheme` of the page.
        """
        with self._turn:  # one after the other: side by side they would all be done last
            return self._draw(self.look(), part.name, *_asked(state["search"]), look_of(state))

    def _computed(self, snapshot: Snapshot, name: str, query: Query, notices_: tuple[str, ...], look: Look) -> Drawn:
        found = compute(PARTS[name], self._select(snapshot, query, notices_), look)
        if found.figure is not None:
            found.figure["layout"]["uirevision"] = f"{name}{query.search()}"  # an empty one would keep nothing
        return found


def _asked(search: str) -> tuple[Query, tuple[str, ...]]:
    """What a URL asks for, and what of it means nothing; without what no selection depends on."""
    query, told = parse_query(search)
    return query.but(theme="auto", pause=False), told


def look_of(state: Mapping[str, str]) -> Look:
    """The colours that a page asks for."""
    return DARK if state.get("scheme") == "dark" else LIGHT
