"""Figures fitted to the screen: margins for legend and axes, and shorter labels on a phone.

For a phone, what is written in a figure is shortened, broken into lines or turned, so that nothing overlaps. Layer
strips alone name settings along an axis; the table and what a finger touches have the words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dashboards.views.kit.axes import BESIDE_ROWS, NARROW_TEXT
from dashboards.views.kit.theme import Figure, Look
from orchestrator.analysis.freeze_names import FROZEN, TRAINED

_FONT = 10  # pixels of tick labels, the least that one reads
_ROOM = 280  # pixels between the ends of an x axis
_LETTER, _SQUARE = 5.6, 9.5  # mean widths in that font
_LABEL_GAP = 8  # pixels between two labels, so that two strips are not read as one
ROW, LEAST_HEIGHT = 30, 160  # pixels that a label of two lines takes, and that any figure needs
_STRIP = re.compile(f"[{FROZEN}{TRAINED}][{FROZEN}{TRAINED} ]*")
_NUMBER = re.compile(r" [+-][0-9.]+$")


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
    """The strip of a label that has one, with the number at its end; else the label."""
    strip, number = _STRIP.search(label), _NUMBER.search(label)
    return strip.group().rstrip() + (number.group() if number else "") if strip else label


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


def fitted(figure: Figure, look: Look) -> Figure:
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
