"""How figures are drawn: names and numbers as Plotly may have them, axes, notes, panels, intervals, marks."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboards.views.kit.theme import Figure, Look, axis, layout, vertical_line
from orchestrator.analysis.cells import FROZEN, TRAINED, FreezeName, layer_strip
from orchestrator.analysis.cells import freeze_name as freeze_name
from trials.escaping import escaped

_MAX_NAME = 60
NARROW_TEXT, BESIDE_ROWS = 44, 28  # characters of 12 pixels below a phone's figure, and below one with row labels
_MOST_DECADES = 3  # with more, an axis names powers of ten only
_GAP = 0.09  # between panels, as a share of the height
_HEAD = 34  # pixels of the title of a panel of rows


# --- Names and numbers


def name(text: object, at_most: int = _MAX_NAME) -> str:
    """A name from the data as Plotly may write it: short, without HTML and without a template field (`%{x}`)."""
    return html.escape(short(text, at_most)).replace("%{", "%&#123;")


def short(text: object, at_most: int = _MAX_NAME) -> str:
    """A name cut to what a figure has room for, of visible characters; not escaped for HTML."""
    full = escaped(str(text))
    return full if len(full) <= at_most else f"{full[: at_most - 1]}…"


def freeze_column(labels: pd.Series, n_layers: pd.Series) -> pd.Series:
    """Freeze labels and the encoders' numbers of layers as a column of `FreezeName`, empty where there is no label."""
    pairs = list(zip(labels, n_layers, strict=True))
    names = {
        (label, n): "" if pd.isna(label) else FreezeName(str(label), 0 if pd.isna(n) else int(n))
        for label, n in dict.fromkeys(pairs)
    }
    return pd.Series([names[pair] for pair in pairs], index=labels.index, dtype=object)


def cell_name(row: Any, *, several: bool) -> str:
    """What a cell freezes, with its layer strip, and its train size if there are several; escaped."""
    label = with_strip(str(row.freeze), int(row.n_layers), name(freeze_name(row.freeze)))
    return f"{label}, {row.train_size:,}" if several else label


def with_strip(label: str, n_layers: int, text: str, between: str = " ") -> str:
    """The layer strip of a freeze label, if it has one, before its words."""
    squares = layer_strip(label, n_layers)
    return f"{squares}{between}{text}" if squares else text


def numbers(values: npt.ArrayLike, scale: float = 1.0, digits: int = 4) -> list[float | None]:
    """Numbers as JSON can hold them: scaled, rounded, None for NaN and infinities."""
    scaled = np.round(np.asarray(values, dtype=np.float64) * scale, digits)
    return [value if ok else None for value, ok in zip(scaled.tolist(), np.isfinite(scaled).tolist(), strict=True)]


# --- Colours and symbols


def cell_colour(look: Look, row: Any) -> str:
    """Colour of a row with `cell`, `baseline`, `depth` and `n_layers`: its depth's; the baseline has the text's."""
    return look.text if row.cell == row.baseline else look.depth(int(row.depth), int(row.n_layers))


def cell_symbol(look: Look, row: Any) -> str:
    """Symbol of a row with `strategy` and `embeddings`: hollow if the embeddings are frozen."""
    symbol = look.strategy(str(row.strategy))[1]
    return f"{symbol}-open" if row.embeddings else symbol


# --- Marks


def interval_bars(table: pd.DataFrame, colour: str, *, scale: float = 1.0, thickness: float = 1.5) -> dict[str, Any]:
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
        "thickness": thickness,
        "width": 4,
    }


def without_few(table: pd.DataFrame) -> pd.DataFrame:
    """A table of `describe_cells` without the intervals that rest on too few trials to be drawn."""
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
    filled: Sequence[bool]
    colours: Sequence[str] | str
    hover: list[list[Any]]
    template: str


def forest_plot(
    table: pd.DataFrame, marks: Diamonds, look: Look, x_title: str, *, shapes: Sequence[dict[str, Any]] = ()
) -> Figure:
    """Losses with their intervals, a row each, and a line at zero.

    Args:
        table: `loss`, `low` and `high` of each row, as shares.
        shapes: Drawn below the rows.
    """
    trace = {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "name": "difference",
        "x": numbers(table["loss"], 100),
        "y": list(range(len(table))),
        "error_x": interval_bars(table.assign(mean=table["loss"]), look.muted, scale=100),
        "marker": {
            "symbol": ["diamond" if filled else "diamond-open" for filled in marks.filled],
            "size": 11,
            "color": marks.colours,
            "line": {"width": 1.5, "color": look.text},
        },
        "customdata": marks.hover,
        "hovertemplate": marks.template,
    }
    lines = [*shapes, vertical_line(look)]
    return {"data": [trace], "layout": rows_layout(look, axis(x_title), marks.labels, shapes=lines)}


# --- Names beside marks

_LETTER, _SQUARE, _LINE, _MARKER = 7.0, 11.5, 16, 8  # pixels
_SIDES = ("right", "left", "center")
Box = tuple[float, float, float, float]  # left, right, bottom, top


def beside_marks(
    at: Sequence[tuple[float, float]],
    names: Sequence[str],
    room: Box,
    order: Sequence[int],
    lines: Sequence[Box] = (),
) -> list[str]:
    """Where the name of each mark stands, as `textposition`; empty for one that would cover another mark or name.

    Args:
        at: Of the marks, in pixels.
        room: Of the panel.
        order: Those that are placed first.
        lines: What names may not cover, too.
    """
    taken: list[Box] = [(x - _MARKER, x + _MARKER, y - _MARKER, y + _MARKER) for x, y in at] + list(lines)
    positions = [""] * len(at)
    for n in order:
        for place, box in _places_around(*at[n], label_width(names[n])):
            fits = box[0] >= room[0] and box[1] <= room[1] and box[2] >= room[2] and box[3] <= room[3]
            if fits and not any(_overlap(box, other) for other in taken):
                positions[n] = place
                taken.append(box)
                break
    return positions


def label_width(label: str) -> float:
    """Pixels that a label takes in a figure; the squares of a layer strip are wider than letters."""
    squares = sum(label.count(square) for square in (FROZEN, TRAINED))
    return _SQUARE * squares + _LETTER * (len(label) - squares)


def _places_around(x: float, y: float, wide: float) -> Iterator[tuple[str, Box]]:
    """The places beside, above and below a marker, those first that its intervals do not cross."""
    starts = {"right": x + _MARKER / 2, "left": x - _MARKER / 2 - wide, "center": x - wide / 2}
    for side in _SIDES:
        for up, bottom in (("top", y + _MARKER), ("bottom", y - _MARKER - _LINE)):
            yield f"{up} {side}", (starts[side], starts[side] + wide, bottom, bottom + _LINE)


def _overlap(box: Box, other: Box) -> bool:
    return box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3]


# --- Axes, notes, panels


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
    """A layout of rows of `row_height` pixels, with room for their labels: Plotly would draw twice to make it."""
    height = int(np.clip(110 + row_height * len(labels), 240, 2000))
    drawn = layout(look, x=x, y=row_axis(labels), height=height, **more)
    drawn["margin"] |= {"l": label_margin(labels)}
    return drawn


def label_margin(labels: Sequence[str]) -> int:
    """Pixels that the labels of rows take."""
    return 12 + 7 * min(max(map(len, labels), default=0), 46)


def with_note(figure: Figure, look: Look, *notes: str, width: int = 110) -> Figure:
    """The figure with notes below the title of its x axis, in a larger margin; the same figure if there is no note."""
    paragraph = " ".join(note for note in notes if note)
    if not paragraph:
        return figure
    drawn = figure["layout"]
    if look.narrow:
        width = BESIDE_ROWS if "ticktext" in drawn["yaxis"] else NARROW_TEXT
    lines = "<br>".join(html.escape(escaped(line), quote=False) for line in textwrap.wrap(paragraph, width))
    title = drawn["xaxis"]["title"]
    note = f'<span style="font-size:12px;color:{look.muted}">{lines}</span>'
    text = "<br>".join(filter(None, [title["text"], note]))
    named = {"xaxis": {**drawn["xaxis"], "title": {**title, "text": text}}}
    if "margin" in drawn:
        named["margin"] = {**drawn["margin"], "b": drawn["margin"]["b"] + 20 * (lines.count("<br>") + 1)}
    return {**figure, "layout": {**drawn, **named}}


def log_axis(title: str, values: npt.ArrayLike) -> dict[str, Any]:
    """A logarithmic axis whose every tick has its number in full, with air around the values (all above 0)."""
    array = np.asarray(values, dtype=np.float64)
    low, high = np.log10(array.min()), np.log10(array.max())
    air = 0.1 * (high - low) + 0.05
    decades = range(int(np.floor(low - air)), int(np.ceil(high + air)) + 1)
    steps = (1, 2, 5) if high - low < _MOST_DECADES else (1,)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    ticks = [tick for tick in ticks if low - air <= np.log10(tick) <= high + air]
    return axis(
        title, type="log", range=[low - air, high + air], tickvals=ticks, ticktext=[_brief(tick) for tick in ticks]
    )


def _brief(value: float) -> str:
    """`200`, `5k`, `2M`."""
    for unit, least in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= least:
            return f"{value / least:g}{unit}"
    return f"{value:g}"


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
