"""How figures are drawn: colours of both themes, names and numbers, layouts of axes and panels, marks of settings.

Depth is ordered, from blue to ochre, in the same colours in both themes. Strategies are not ordered and have Okabe
and Ito's colours, each with a symbol and a dash of its own, so that colour is never the only code. The baseline has the
colour of the text.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.freeze_names import FreezeName
from trials.escaping import escape_line, html
from trials.freeze.strategies import LAYERS, TEXT_COLOUR, look_of

# For every figure, on a page and in a file. By default plotly.js 4 offers to upload the figure.
PLOTLY_CONFIG = {
    "displaylogo": False,
    "showSendToCloud": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "toImage"],
    "responsive": True,
}
Figure = dict[str, Any]  # as plotly.js takes it: {"data": [...], "layout": {...}}

# Okabe & Ito, "Color Universal Design" (2008), as are the colours of our strategies; too pale ones are darkened.
_SETS = ("#B07C00", "cross", "longdash")  # colour, marker and line of explicit sets of layers
_OTHERS = (("#3A8FC7", "star", "longdashdot"), ("#8C6BB1", "hexagon", "dash"), ("#B5653A", "pentagon", "dot"))
# From blue over violet and red to ochre, in steps of luminance: 3:1 or more against the paper of both themes.
_DEPTHS = ("#1178DF", "#7963F2", "#A83FD6", "#D6229D", "#E23A5F", "#DC5D08", "#BC7E10")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")
STATES = {
    "completed": ("completed", "#2E7D32", "✓"),
    "running": ("running", "#0072B2", "▶"),
    "planned": ("planned", "#9AA5B1", "·"),
    "missing": ("missing", "#C9CED6", "○"),
    "pruned": ("pruned", "#B07C00", "p"),
    "diverged": ("diverged", "#D55E00", "∞"),
    "out_of_memory": ("out of memory", "#A33B00", "m"),
    "lost": ("lost", "#8C6BB1", "l"),
    "unavailable": ("unavailable", "#8C6BB1", "u"),
    "failed": ("failed", "#C62828", "✗"),
}


@dataclass(frozen=True)
class Look:
    """Colours of one theme.

    Attributes:
        text, muted: Colours of text; `text` is the colour of the baseline, too.
        paper, grid: Colours of the background and its grid lines.
        narrow: Whether the screen is a phone's, where panels stand below each other, names are short and maps scroll.
        large: Whether the screen has room for figures that are higher, and for three panels beside each other.
        printed: Whether the figure is as wide as a page of paper, where its labels have less room than on a screen.
    """

    text: str
    muted: str
    paper: str
    grid: str
    dark: bool
    narrow: bool = False
    large: bool = False
    printed: bool = False

    def depth(self, depth: int, n_layers: int) -> str:
        """Colour of a depth, another for each and the same in both themes."""
        place = (len(_DEPTHS) - 1) * min(depth, n_layers) / max(n_layers, 1)
        step = min(int(place), len(_DEPTHS) - 2)
        return _mix(_DEPTHS[step], _DEPTHS[step + 1], place - step)

    @property
    def tolerance_colour(self) -> str:
        """What lies within the tolerance."""
        return "rgba(0,158,115,0.18)"

    def strategy(self, name: str) -> tuple[str, str, str]:
        """Colour, symbol and dash of a strategy."""
        own = look_of(name)
        others = _SETS if name == LAYERS else _OTHERS[sum(map(ord, name)) % len(_OTHERS)]
        colour = self.text if own.colour == TEXT_COLOUR else own.colour or others[0]
        return colour, own.symbol or others[1], own.dash or others[2]

    def line(self, number: int) -> str:
        """Colour of one of several lines without an order; with more than six, symbols and dashes tell them apart."""
        light = ["#0A7ABD", "#D55E00", "#009E73", "#C76BA0", "#B07C00", "#8C6BB1"]
        colours = ["#58B4EA", "#F08A3C", "#2FBD93", "#DE94BF", "#D9A62B", "#B49BDB"] if self.dark else light
        return colours[number % len(colours)]

    def scale(self) -> list[list[object]]:
        """A colour scale from 0 to 1 that starts with the background."""
        steps = (
            (self.paper, "#1F4E79", "#56B4E9", "#D6EEFF")
            if self.dark
            else (self.paper, "#9CC9E8", "#0072B2", "#00304D")
        )
        return [[n / (len(steps) - 1), colour] for n, colour in enumerate(steps)]

    def diverging(self) -> list[list[object]]:
        """A colour scale that is orange below zero, the background at zero, and blue above."""
        return [[0.0, "#D55E00"], [0.5, self.paper], [1.0, "#0072B2"]]


LIGHT = Look(text="#1A1B1E", muted="#495057", paper="#FFFFFF", grid="#DEE2E6", dark=False)
DARK = Look(text="#E9ECEF", muted="#B4BAC1", paper="#242424", grid="#3A3D42", dark=True)

# What a browser asks for: its colour scheme, and whether its screen is narrow or large.
LOOKS = {
    "light": LIGHT,
    "dark": DARK,
    "light-narrow": replace(LIGHT, narrow=True),
    "dark-narrow": replace(DARK, narrow=True),
    "light-large": replace(LIGHT, large=True),
    "dark-large": replace(DARK, large=True),
}


def _mix(first: str, second: str, share: float) -> str:
    """A colour between two, `#RRGGBB`."""
    pairs = ((int(first[start : start + 2], 16), int(second[start : start + 2], 16)) for start in (1, 3, 5))
    return "#" + "".join(f"{round(a + share * (b - a)):02X}" for a, b in pairs)


def dark_colours() -> dict[str, str]:
    """Colours of a light figure, and those that take their place in a dark one."""
    pairs = [(getattr(LIGHT, name), getattr(DARK, name)) for name in ("text", "muted", "paper", "grid")]
    pairs += [(str(LIGHT.scale()[n][1]), str(DARK.scale()[n][1])) for n in (1, 3)]
    return dict(pairs) | {rgba(before): rgba(after) for before, after in pairs}


def rgba(colour: str) -> str:
    """The beginning of a colour `#RRGGBB` with an opacity: `rgba(1,2,3`."""
    return f"rgba({','.join(str(int(colour[start : start + 2], 16)) for start in (1, 3, 5))}"


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with a title, which includes the unit."""
    return {"title": {"text": title, "standoff": 8}, "automargin": True, **more}


def epoch_axis(title: str, last: float, **more: Any) -> dict[str, Any]:
    """An axis of epochs up to the `last`; of few epochs it names each."""
    return axis(title, rangemode="nonnegative", **({"dtick": 1} if last <= _MOST_EPOCHS_NAMED else {}), **more)


_MOST_EPOCHS_NAMED = 12  # more ticks than this overlap in a narrow panel
_LARGE_HIGH = 760  # pixels to which figures are stretched on a large screen


def layout(look: Look, *, x: Mapping[str, Any], y: Mapping[str, Any], height: int = 380, **more: Any) -> dict[str, Any]:
    """The layout that all figures share."""
    lines = {"gridcolor": look.grid, "linecolor": look.muted, "zerolinecolor": look.muted, "zeroline": False}
    return {
        "font": {"family": "system-ui, 'Segoe UI', Roboto, sans-serif", "size": 13, "color": look.text},
        "paper_bgcolor": look.paper,
        "plot_bgcolor": look.paper,
        "height": max(height, min(round(1.6 * height), _LARGE_HIGH)) if look.large else height,
        "margin": {"l": 56, "r": 16, "t": 16, "b": 56},
        "hovermode": "closest",
        "hoverlabel": {"font": {"family": "system-ui, sans-serif"}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 12}},
        "xaxis": {**lines, **x},
        "yaxis": {**lines, **y},
        **more,
    }


def vertical_line(look: Look) -> dict[str, Any]:
    """A line across the figure at zero: no difference, nothing saved."""
    ink = {"color": look.text, "width": 1}
    return {"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1, "line": ink}


def empty_figure(look: Look, reason: str) -> Figure:
    """A figure that only says why there is nothing to draw."""
    hidden = {"visible": False, "fixedrange": True}
    note = {
        "text": "<br>".join(html(line) for line in textwrap.wrap(reason, 60)),
        "xref": "paper",
        "yref": "paper",
        "x": 0.5,
        "y": 0.5,
        "showarrow": False,
    }
    return {"data": [], "layout": layout(look, x=hidden, y=hidden, height=130, annotations=[note])}


def dodge(seed_index: Sequence[int], n_seeds: int, width: float = 0.6) -> list[float]:
    """Horizontal offset of each dot, by the index of its seed: not random, so that a dot stays where it is."""
    return [(index + 0.5) / n_seeds * width - width / 2 if n_seeds > 1 else 0.0 for index in seed_index]


_MAX_NAME = 60  # characters


def name(text: object, at_most: int = _MAX_NAME) -> str:
    """A name from the data as Plotly may write it: short, without HTML and without a template field (`%{x}`)."""
    return escape(short(text, at_most)).replace("%{", "%&#123;")


def short(text: object, at_most: int = _MAX_NAME) -> str:
    """A name cut to what a figure has room for, of visible characters; not escaped for HTML."""
    full = escape_line(str(text))
    return full if len(full) <= at_most else f"{full[: at_most - 1]}…"


def freeze_column(freezes: pd.Series, n_layers: pd.Series) -> pd.Series:
    """`FreezeSpec`s and the encoders' numbers of layers as a column of `FreezeName`, empty where nothing is known."""
    pairs = list(zip(freezes, n_layers, strict=True))
    names = {(freeze, n): "" if pd.isna(freeze) else FreezeName(freeze, int(n)) for freeze, n in dict.fromkeys(pairs)}
    return pd.Series([names[pair] for pair in pairs], index=freezes.index, dtype=object)


def cell_name(row: Any, *, several: bool) -> str:
    """What a cell freezes, with its layer strip, and its train size if there are several; escaped."""
    frozen = FreezeName(row.freeze_spec, int(row.n_layers))
    label = with_strip(frozen, name(frozen))
    return f"{label}, {row.train_size:,}" if several else label


def with_strip(frozen: FreezeName, text: str, between: str = " ") -> str:
    """The layer strip of a freeze, if it has one, before its words."""
    return f"{frozen.squares}{between}{text}" if frozen.squares else text


def numbers(values: npt.ArrayLike, scale: float = 1.0, digits: int = 4) -> list[float | None]:
    """Numbers (n,) as JSON can hold them: scaled, rounded, None for NaN and infinities."""
    scaled = np.round(np.asarray(values, dtype=np.float64) * scale, digits)
    return [value if ok else None for value, ok in zip(scaled.tolist(), np.isfinite(scaled).tolist(), strict=True)]


_PHONE_LETTERS = 40  # of a line of notes
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
    """The figure with notes below the title of its x axis, of several the first of the lowest row, in a larger margin;
    the same figure if there is no note. On a phone lines have `_PHONE_LETTERS`.
    """
    paragraph = " ".join(note for note in notes if note)
    if not paragraph:
        return figure
    drawn = figure["layout"]
    width = min(width, _PHONE_LETTERS) if look.narrow else width
    lines = "<br>".join(escape(escape_line(line), quote=False) for line in textwrap.wrap(paragraph, width))
    axes = [key for key in drawn if key.startswith("xaxis")]
    lowest = min(axes, key=lambda key: drawn.get(key.replace("x", "y", 1), {}).get("domain", [0.0])[0])
    title = drawn[lowest]["title"]
    note = f'<span style="font-size:12px;color:{look.muted}">{lines}</span>'
    text = "<br>".join(filter(None, [title["text"], note]))
    named = {lowest: {**drawn[lowest], "title": {**title, "text": text}}}
    if "margin" in drawn:
        named["margin"] = {**drawn["margin"], "b": drawn["margin"]["b"] + 20 * (lines.count("<br>") + 1)}
    return {**figure, "layout": {**drawn, **named}}


def panels(look: Look, x: dict[str, Any], titles: Sequence[str]) -> dict[str, Any]:
    """A layout of panels above each other that share their x axis: `y`, `y2`, ... from the top."""
    n = len(titles)
    height = (1 - _GAP * (n - 1)) / n
    domains = [[max(0.0, 1 - height - k * (height + _GAP)), 1 - k * (height + _GAP)] for k in range(n)]
    drawn = layout(look, x={**x, "anchor": axis_name(n - 1)}, y={}, height=120 + 260 * n)
    lines = drawn.pop("yaxis")
    for k, (title, domain) in enumerate(zip(titles, domains, strict=True)):
        drawn[f"yaxis{k + 1 if k else ''}"] = {**lines, **axis(title), "domain": domain}
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
        suffix = str(place + 1) if place else ""
        across = _share(column, columns, 0.1 if own else 0.05)
        down = _share(rows - 1 - row, rows, min(0.2, 84 / (panel_height * rows)))
        untitled = {"title": {"text": ""}}
        lowest, is_left = place + columns >= n, column == 0
        drawn[f"xaxis{suffix}"] = {
            **x_lines, **x, **({} if lowest else untitled), "domain": across, "anchor": f"y{suffix}",
            "showticklabels": lowest,
        }  # fmt: skip
        drawn[f"yaxis{suffix}"] = {
            **y_lines, **(y[place] if not isinstance(y, dict) else y), **({} if is_left else untitled), "domain": down,
            "anchor": f"x{suffix}", "showticklabels": is_left or own, **({"matches": "y"} if place and not own else {}),
        }  # fmt: skip
        drawn["annotations"].append(heading(title, across[0], down[1]))
    return drawn


def panel_axes(panel: int) -> dict[str, str]:
    """For a trace: the axes of a panel of `grid`."""
    return {"xaxis": axis_name(panel).replace("y", "x"), "yaxis": axis_name(panel)}


def _share(place: int, n: int, gap: float) -> list[float]:
    """The extent of panel `place` of `n` panels in a row or column, with `gap` between neighbours; 0 to 1."""
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


def cell_colour(look: Look, row: Any) -> str:
    """Colour of a row with `cell`, `baseline`, `depth` and `n_layers`: its depth's; the baseline has the text's."""
    return look.text if row.cell == row.baseline else look.depth(int(row.depth), int(row.n_layers))


def cell_symbol(look: Look, row: Any) -> str:
    """Symbol of a row with `strategy` and `embeddings`: with a dot inside if the embeddings are frozen. Hollow means
    something else: not shown to be within the tolerance.
    """
    symbol = look.strategy(str(row.strategy))[1]
    return f"{symbol}-dot" if row.embeddings else symbol


def interval_bars(table: pd.DataFrame, colour: str, *, scale: float = 1.0) -> dict[str, Any]:
    """Error bars from the columns `mean`, `low` and `high`; none where an end is NaN.

    Plotly draws the caps of a bar that is not there, as if one trial were very sure: without any bar, none are drawn.
    """
    return {
        "type": "data",
        "visible": bool((table["low"].notna() & table["high"].notna()).any()),
        "symmetric": False,
        "array": numbers(table["high"] - table["mean"], scale),
        "arrayminus": numbers(table["mean"] - table["low"], scale),
        "color": colour,
        "thickness": 1.5,
        "width": 4,
    }


def without_few(table: pd.DataFrame) -> pd.DataFrame:
    """A table of `describe_cells` whose `low` and `high` are NaN where too few trials allow dots only (`dots_only`)."""
    return table.assign(**{end: table[end].where(table["dots_only"].eq(False)) for end in ("low", "high")})


def mean_marks(x: Sequence[float], table: pd.DataFrame, look: Look, *, scale: float = 1.0, **more: Any) -> Figure:
    """Short lines at the means of a table with `mean`, `low` and `high`, with their intervals."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "mean, 95 % interval",
        "x": list(x),
        "y": numbers(table["mean"], scale),
        "error_y": interval_bars(table, look.text, scale=scale),
        "marker": {"symbol": "line-ew-open", "size": 16, "color": look.text, "line": {"width": 2}},
        **more,
    }


class Diamonds(NamedTuple):
    """Rows of a forest plot.

    Attributes:
        labels: Of the rows, from the top; escaped.
        hover: What each says; the first field is its name.
    """

    labels: list[str]
    colours: Sequence[str] | str
    hover: list[list[Any]]
    template: str


def forest_plot(table: pd.DataFrame, marks: Diamonds, look: Look, x_title: str) -> Figure:
    """Losses with their intervals, a row each, and a line at zero; the table has `loss`, `low` and `high` in points."""
    trace = {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "name": "difference",
        "x": numbers(table["loss"]),
        "y": list(range(len(table))),
        "error_x": interval_bars(table.assign(mean=table["loss"]), look.muted),
        "marker": {
            "symbol": "diamond",
            "size": 11,
            "color": marks.colours,
            "line": {"width": 1.5, "color": look.text},
        },
        "customdata": marks.hover,
        "hovertemplate": marks.template,
    }
    return {"data": [trace], "layout": rows_layout(look, axis(x_title), marks.labels, shapes=[vertical_line(look)])}
