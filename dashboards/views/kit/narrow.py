"""A figure for a phone: what is written in it is shortened, broken into lines or turned, so that nothing overlaps.

Layer strips alone name settings along an axis; the table and what a finger touches have the words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dashboards.views.kit.drawing import BESIDE_ROWS, NARROW_TEXT
from dashboards.views.kit.theme import Figure
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
            trace["text"] = [_strip_of(words) for words in trace["text"]]
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
    two = [_STRIP.sub(lambda found: f"{found.group().rstrip()}<br>", label, count=1) for label in labels]
    rows |= {"ticktext": two, "automargin": False}
    widest = max(_width(line) for label in two for line in label.split("<br>"))
    drawn["margin"] = {**drawn["margin"], "l": 14 + min(widest, 150) + (20 if rows.get("title") else 0)}
    return True


def _strip_of(label: str) -> str:
    """The strip of a label that has one, else the label."""
    found = _STRIP.search(label)
    return found.group().rstrip() if found else label


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
