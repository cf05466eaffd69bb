"""Axes, panels and notes of figures."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from dashboards.views.kit.theme import Figure, Look, axis, layout
from trials.escaping import escaped

_GAP = 0.09  # between panels, as a share of the height
_HEAD = 34  # pixels of the title of a panel of rows


def row_axis(labels: Sequence[str]) -> dict[str, Any]:
    """An axis of rows from the top, at 0, 1, ..."""
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": list(labels),
        "range": [len(labels) - 0.5, -0.5],
        "automargin": True,
        "showgrid": False,
    }


def rows_layout(
    look: Look, x: dict[str, Any], labels: Sequence[str], *, row_height: int = 24, **more: Any
) -> dict[str, Any]:
    """A layout of rows of `row_height` pixels."""
    height = int(np.clip(110 + row_height * len(labels), 240, 2000))
    return layout(look, x=x, y=row_axis(labels), height=height, **more)


def with_note(figure: Figure, look: Look, *notes: str, width: int = 110) -> Figure:
    """The figure with notes below the title of its x axis, in a larger margin; the same figure if there is no note."""
    paragraph = " ".join(note for note in notes if note)
    if not paragraph:
        return figure
    drawn = figure["layout"]
    lines = "<br>".join(html.escape(escaped(line), quote=False) for line in textwrap.wrap(paragraph, width))
    title = drawn["xaxis"]["title"]
    note = f'<span style="font-size:12px;color:{look.muted}">{lines}</span>'
    text = "<br>".join(filter(None, [title["text"], note]))
    named = {"xaxis": {**drawn["xaxis"], "title": {**title, "text": text}}}
    if "margin" in drawn:
        named["margin"] = {**drawn["margin"], "b": drawn["margin"]["b"] + 20 * (lines.count("<br>") + 1)}
    return {**figure, "layout": {**drawn, **named}}


def panels(
    look: Look, x: dict[str, Any], titles: Sequence[str], *, panel_height: int = 260, **y: Any
) -> dict[str, Any]:
    """A layout of panels above each other that share their x axis: `y`, `y2`, ... from the top."""
    n = len(titles)
    height = (1 - _GAP * (n - 1)) / n
    domains = [[max(0.0, 1 - height - k * (height + _GAP)), 1 - k * (height + _GAP)] for k in range(n)]
    drawn = layout(look, x={**x, "anchor": axis_name(n - 1)}, y={}, height=120 + panel_height * n)
    lines = drawn.pop("yaxis")
    for k, (title, domain) in enumerate(zip(titles, domains, strict=True)):
        drawn[f"yaxis{k + 1 if k else ''}"] = {**lines, **axis(title, **y), "domain": domain}
    return drawn


def row_panels(
    look: Look, x: dict[str, Any], titles: Sequence[str], rows: Sequence[Sequence[str]], *, row_height: int
) -> dict[str, Any]:
    """A layout of panels above each other on one x axis, each with a title and rows of `row_height` pixels."""
    heights = [_HEAD + row_height * len(labels) for labels in rows]
    total, top = sum(heights), 0
    x = {**x, "anchor": axis_name(len(rows) - 1)}
    drawn = layout(look, x=x, y={}, height=total + 90, showlegend=False, annotations=[])
    lines = drawn.pop("yaxis")
    for n, (title, labels, height) in enumerate(zip(titles, rows, heights, strict=True)):
        start = 1 - (top + _HEAD) / total
        top += height
        domain = [max(0.0, 1 - top / total), start]
        drawn[f"yaxis{n + 1 if n else ''}"] = {**lines, **row_axis(labels), "domain": domain}
        drawn["annotations"].append(heading(title, 0, start))
    return drawn


def grid(
    look: Look,
    x: dict[str, Any],
    y: dict[str, Any] | Sequence[dict[str, Any]],
    titles: Sequence[str],
    *,
    columns: int,
    panel_height: int,
) -> dict[str, Any]:
    """A layout of titled panels in rows of `columns` (`panel_axes`) on the same axes, or each on a y axis of its own.

    Titles and tick labels of axes that panels share stand at the left and at the bottom only.
    """
    own = not isinstance(y, dict)
    n = len(titles)
    rows = -(-n // columns)
    drawn = layout(look, x={}, y={}, height=80 + panel_height * rows, annotations=[], shapes=[])
    drawn["margin"] = {**drawn["margin"], "t": 48}
    x_lines, y_lines = drawn.pop("xaxis"), drawn.pop("yaxis")
    for place, title in enumerate(titles):
        row, column = divmod(place, columns)
        at = str(place + 1) if place else ""
        across = _share(column, columns, 0.1 if own else 0.05)
        down = _share(rows - 1 - row, rows, min(0.2, 84 / (panel_height * rows)))
        untitled = {"title": {"text": ""}}
        lowest, left = place + columns >= n, column == 0
        drawn[f"xaxis{at}"] = {
            **x_lines, **x, **({} if lowest else untitled), "domain": across, "anchor": f"y{at}",
            "showticklabels": lowest,
        }  # fmt: skip
        drawn[f"yaxis{at}"] = {
            **y_lines, **(y[place] if not isinstance(y, dict) else y), **({} if left else untitled), "domain": down,
            "anchor": f"x{at}", "showticklabels": left or own, **({"matches": "y"} if place and not own else {}),
        }  # fmt: skip
        drawn["annotations"].append(heading(title, across[0], down[1]))
    return drawn


def panel_axes(panel: int) -> dict[str, str]:
    """For a trace: the axes of a panel of `grid`."""
    return {"xaxis": axis_name(panel).replace("y", "x"), "yaxis": axis_name(panel)}


def _share(place: int, n: int, gap: float) -> list[float]:
    """Where one of `n` panels in a row or column lies, with `gap` between two."""
    extent = (1 - gap * (n - 1)) / n
    start = place * (extent + gap)
    return [start, min(start + extent, 1.0)]


def heading(text: str, x: float, y: float) -> dict[str, Any]:
    """The title of a panel, above this place of the figure."""
    place = {"xref": "paper", "yref": "paper", "x": x, "y": y, "xanchor": "left", "yanchor": "bottom"}
    return {"text": text, **place, "align": "left", "showarrow": False}


def axis_name(panel: int) -> str:
    """Plotly's name of a panel's y axis: `y`, `y2`, ..."""
    return f"y{panel + 1}" if panel else "y"
