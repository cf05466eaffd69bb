"""Parallel coordinates, to see which combination of settings the best trials have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection, of_corpus
from dashboards.views.drawing import freeze_name, name, numbers, with_note
from dashboards.views.part import Part
from dashboards.views.slices import MAX_LEVELS
from dashboards.views.theme import Figure, Look, axis, layout
from dashboards.views.varied import ALL_SAME, NOTE_WIDTH, evenly, level_name, levels, thinned, varied

MAX_LINES = 200
_BEST = 5  # trials that stand out
# Colours of lines from the worst to the best, from near the background to strong.
_LIGHT = ("#D4DDE6", "#B3C9DD", "#8DB4D6", "#5A96C8", "#0072B2")
_DARK = ("#39434D", "#3E5368", "#446A8C", "#4A86BA", "#56B4E9")
_SHADES = len(_LIGHT)
_EACH = 64  # pixels between two axes
_BAND = 0.5  # share of the room between two values that the lines of one value take


class ParallelAxis(NamedTuple):
    """One axis.

    Attributes:
        places: (trials,) from 0 to 1.
        marks: Where names stand, and which.
    """

    label: str
    places: np.ndarray[Any, np.dtype[np.float64]]
    marks: list[tuple[float, str]]


class Lines(NamedTuple):
    """A line per trial through all axes.

    Attributes:
        trials: One row per line, by score: `trial_id`, `freeze`, `seed`, `y` (score, 0..1).
        axes: The settings that vary, then the score.
        n: Completed trials; more than lines if they are thinned.
        table: One row per completed trial, with its settings.
    """

    trials: pd.DataFrame
    axes: list[ParallelAxis]
    n: int
    value_name: str
    table: pd.DataFrame


def prepare_parallel(selection: Selection) -> Lines:
    """Lines that pass one value lie beside each other, by score."""
    found = varied(of_corpus(selection))
    trials = found.trials.assign(y=found.trials[selection.column])
    named = {found.labels[key]: [level_name(key, value) for value in trials[key]] for key in found.varying}
    score = {f"{selection.value_name} (%)": (100 * trials["y"].astype("float64")).round(4)}
    table = pd.DataFrame({"trial": trials["trial_id"], **named, **score})
    shown = trials.iloc[evenly(trials["y"], MAX_LINES)].reset_index(drop=True)
    axes = [_axis(key, found.labels[key], levels(trials[key]), shown[key]) for key in found.varying]
    low, high = (float(shown["y"].min()), float(shown["y"].max())) if len(shown) else (0.0, 1.0)
    places = ((shown["y"] - low) / (high - low if high > low else 1.0)).to_numpy(dtype=np.float64)
    marks = [(share, f"{100 * (low + share * (high - low)):.1f}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    axes.append(ParallelAxis(f"{selection.value_name} (%)", places, marks if high > low else marks[:1]))
    return Lines(shown, axes, len(trials), selection.value_name, table)


def _axis(column: str, label: str, known: list[object], values: pd.Series) -> ParallelAxis:
    """The known values at equal distances; where they are many, only some are named."""
    place = values.map({value: n for n, value in enumerate(known)}).to_numpy(dtype=np.float64)
    rank = pd.Series(place).groupby(place).rank(method="first").to_numpy()
    size = pd.Series(place).groupby(place).transform("size").to_numpy()
    beside = np.where(size > 1, (rank - 1) / np.maximum(size - 1, 1) - 0.5, 0.0) * _BAND
    named = np.unique(np.linspace(0, len(known) - 1, min(len(known), MAX_LEVELS)).round()).astype(int)
    n = max(len(known), 1)
    return ParallelAxis(
        label, (place + 0.5 + beside) / n, [((at + 0.5) / n, level_name(column, known[at])) for at in named]
    )


def draw_parallel(info: Lines, look: Look) -> Figure:
    """The axes lie below each other, so that names of values have room on any screen; lines run from the top down."""
    n = len(info.axes)
    best = set(range(max(0, len(info.trials) - _BEST), len(info.trials)))
    shade = np.minimum((np.arange(len(info.trials)) * _SHADES) // max(len(info.trials), 1), _SHADES - 1)
    data = []
    shades = _DARK if look.dark else _LIGHT
    others = {n: [row for row in np.flatnonzero(shade == n).tolist() if row not in best] for n in range(_SHADES)}
    strongest = max((n for n, rows in others.items() if rows), default=-1)
    for n_shade, rows in others.items():
        if rows:
            data.append(_trace(info, rows, shades[n_shade], 1.0, "others" if n_shade == strongest else ""))
    data.append(_trace(info, sorted(best), "#D55E00", 3.0, f"the {len(best)} best"))
    data.append(_names(info, look))
    rules = [
        {"type": "line", "xref": "x", "x0": 0, "x1": 1, "y0": at, "y1": at, "layer": "below",
         "line": {"color": look.muted, "width": 1}}
        for at in range(n)
    ]  # fmt: skip
    labels = {
        "tickvals": list(range(n)),
        "ticktext": [name(each.label, 24).replace(" (", "<br>(") for each in info.axes],
        "range": [n - 0.7, -0.6],
        "automargin": True,
    }
    x = {**axis(""), "range": [-0.05, 1.05], "showticklabels": False, "showgrid": False}
    drawn = layout(look, x=x, y={**labels, "showgrid": False}, height=90 + _EACH * n, shapes=rules)
    return with_note({"data": data, "layout": drawn}, look, thinned(len(info.trials), info.n), width=NOTE_WIDTH)


def _trace(info: Lines, rows: list[int], colour: str, width: float, title: str) -> dict[str, Any]:
    """Some lines as one trace with gaps: separate ones draw far slower."""
    places = np.array([each.places[rows] for each in info.axes])  # (axes, lines)
    gap = np.full((1, len(rows)), np.nan)
    y = np.repeat(np.arange(len(info.axes), dtype=np.float64)[:, None], len(rows), axis=1)
    hover = [
        [row.trial_id, f"{100 * row.y:.2f} %, frozen: {name(freeze_name(row.freeze))}"]
        for row in info.trials.iloc[rows].itertuples()
    ]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": title,
        "showlegend": bool(title),
        "x": numbers(np.vstack([places, gap]).T.ravel()),
        "y": numbers(np.vstack([y, gap]).T.ravel()),
        "customdata": [each for each in hover for _ in range(len(info.axes) + 1)],
        "line": {"color": colour, "width": width, "shape": "linear"},
        "hovertemplate": "%{customdata[1]}<br>trial %{customdata[0]}<extra></extra>",
    }


def _names(info: Lines, look: Look) -> dict[str, Any]:
    """The names of the values, above their axes."""
    marks = [(share, at, word) for at, each in enumerate(info.axes) for share, word in each.marks]
    return {
        "type": "scatter",
        "mode": "text",
        "showlegend": False,
        "x": [round(share, 4) for share, _, _ in marks],
        "y": [at - 0.06 for _, at, _ in marks],
        "text": [name(word, 18) for _, _, word in marks],
        "textposition": "top center",
        "textfont": {"size": 11, "color": look.text},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


PARALLEL = Part(
    "matters-parallel",
    "Every trial through its settings",
    "Each line is one trial, from setting to setting down to its score; the best stand out. Click a line to open its "
    "trial.",
    prepare_parallel,
    lambda info: info.table,
    draw_parallel,
    why_empty=lambda info: "" if len(info.axes) > 1 else ALL_SAME,
    method="Parallel coordinates. The darker a line (on a dark page, the brighter), the higher its score. Lines that "
    "pass the same value lie beside each other in the order of their scores.",
)
