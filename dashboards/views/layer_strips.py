"""The layer strip on pages: squares for the eye, words for those who hear the page."""

from __future__ import annotations

from typing import Any

from dash import html

from orchestrator.analysis.layer_strip import FreezeName


def squares_of(name: FreezeName) -> Any:
    """The strip of a name as a component; empty if it has none."""
    if not name.squares:
        return ""
    return html.Span(name.squares, className="strip", role="img", title=name.heard, **{"aria-label": name.heard})
