"""Recent selections and figures of the newest snapshot, shared by all callbacks."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dashboards.data.frames import Frames, Snapshot
from dashboards.data.page_query import PageQuery, parse_query
from dashboards.data.selection import Selection, select
from dashboards.views.kit.drawing import LIGHT, LOOKS, Look
from dashboards.views.kit.part import Drawn, Part, compute
from dashboards.views.registry import PARTS

_SELECTIONS, _DRAWN = 4, 12  # in memory; for a large store one takes some megabytes


class PageCache:
    """Selects and draws for callbacks, and caches the results until the store changes."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self._turn, self._refreshing = threading.Lock(), threading.Lock()
        self._seen: Snapshot | None = None
        self._select = lru_cache(_SELECTIONS)(self._selected)
        self._draw = lru_cache(_DRAWN)(self._computed)

    def snapshot(self) -> Snapshot:
        """The store as it is now; results for older snapshots are dropped."""
        snapshot = self.frames.refresh()
        with self._refreshing:
            if snapshot is not self._seen:
                self._select.cache_clear()
                self._draw.cache_clear()
                self._seen = snapshot
        return snapshot

    def select(self, search: str) -> Selection:
        """The trials that a URL selects."""
        return self._select(self.snapshot(), *_parsed(search))

    @staticmethod
    def _selected(snapshot: Snapshot, query: PageQuery, problems: tuple[str, ...]) -> Selection:
        selection = select(snapshot, query)
        return replace(selection, notices=(*problems, *selection.notices))

    def drawn(self, part: Part[Any], state: Mapping[str, object]) -> Drawn:
        """A computed part. Its zoom and hidden traces survive new rows, but not a new query (`uirevision`)."""
        with self._turn:  # in turn: in parallel the first would be as late as the last
            return self._draw(self.snapshot(), part.name, *_parsed(str(state["search"])), look_of(state))

    def _computed(
        self, snapshot: Snapshot, name: str, query: PageQuery, problems: tuple[str, ...], look: Look
    ) -> Drawn:
        drawn = compute(PARTS[name], self._select(snapshot, query, problems), look)
        if drawn.figure is not None:
            drawn.figure["layout"]["uirevision"] = f"{name}{query.search()}"  # an empty one preserves nothing
        return drawn


def _parsed(search: str) -> tuple[PageQuery, tuple[str, ...]]:
    """The query of a URL without fields that no selection depends on, and its notices."""
    query, problems = parse_query(search)
    return query.but(theme="auto", pause=False), problems


def look_of(state: Mapping[str, object]) -> Look:
    """The colours of a page."""
    return LOOKS.get(str(state.get("scheme")), LIGHT)
