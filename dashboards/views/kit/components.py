"""Parts, tables and cards as components of a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import dash_mantine_components as dmc
import pandas as pd
from dash import dcc, html

from dashboards.data.tables import rows_of
from dashboards.views.kit.drawing import PLOTLY_CONFIG, Figure
from dashboards.views.kit.part import Drawn, Part
from orchestrator.analysis.freeze_names import FreezeName

MAX_ROWS, MAX_LINKED_ROWS = 200, 50  # of a table on a page; a link takes longer to make than a text
_TRIALS = ("trial", "example")
_WRAPPED = {"verdict", "reason", "note", "setting", "value", "answer"}


def part_id(kind: str, name: Any) -> dict[str, Any]:
    """Id of a component of a part or view.

    Args:
        kind: `figure`, `place` (of a figure), `table` (of a figure), `only` (a table
            alone), `content` (of a view, above its parts), `still` (a figure that no callback changes), `age` (of a
            sweep's last row), `sweeps` (their list).
        name: Name of the part or path of the view; `MATCH` or `ALL` in callbacks.
    """
    return {"kind": kind, "part": name}


def part_card(part: Part[Any], drawn: Drawn | None) -> Any:
    """A part with its figure, its table and its exports; if it is not drawn yet, the browser requests it later."""
    if part.draw is not None:
        inner = None if drawn is None else figure_of(part, drawn)
        body = html.Div(inner, id=part_id("place", part.name), className="place", **{"data-waits": _WAITS})
    else:
        rows = None if drawn is None else table(drawn)
        body = _wide("only", part, rows, _WAITS)
    head = html.Div([dmc.Title(part.title, order=2, size="h5"), _caption(part)], className="title")
    card = dmc.Paper(
        dmc.Stack([head, body, _menu(part)], gap=4),
        p="sm",
        withBorder=True,
        className="part if-any" if part.if_any else "part",
        **{"data-part": part.name},
    )
    if not part.on_demand:
        return card
    return html.Details([html.Summary(part.on_demand), card], className="on-demand")


_WAITS = "Loading, one part after the other ..."  # where nothing is yet


def _wide(kind: str, part: Part[Any], inner: Any, waits: str) -> Any:
    """A place that scrolls sideways, and what it says as long as it is empty."""
    return html.Div(
        inner, id=part_id(kind, part.name), className="wide", tabIndex="0", role="group", **{"data-waits": waits}
    )


def _caption(part: Part[Any]) -> Any:
    """The caption, or how to read the figure in short lines; how it was computed opens behind a question mark."""
    caption: Any = dmc.Text(part.caption, size="sm")
    if part.reading:
        lines = [html.Li([html.B(seen), ": ", meaning]) for seen, meaning in part.reading]
        caption = html.Ul(lines, className="reading", **{"aria-label": "How to read it"})
    if not part.method:
        return caption
    mark = html.Summary("?", title="How this is computed", **{"aria-label": f"How {part.title} is computed"})
    return html.Div([caption, html.Details([mark, dmc.Text(part.method, size="sm")])], className="caption")


def _menu(part: Part[Any]) -> Any:
    """The table of a figure, which is filled when this opens, and the files of a part."""
    inner = [_tools(part), *([_wide("table", part, None, "Computing the table ...")] if part.draw else [])]
    words = "Table and files" if part.draw else "Files"
    return html.Details([html.Summary(words, **{"aria-label": f"{words}: {part.title}"}), *inner], className="menu")


def figure_of(part: Part[Any], drawn: Drawn) -> Any:
    """The figure of a part, or why it has nothing to show; None for a table alone."""
    if drawn.figure is None:
        return None
    return _nothing(drawn) if drawn.why_empty else graph(part.name, part.title, drawn.figure)


def _nothing(drawn: Drawn) -> Any:
    """Why there is nothing to show; CSS hides the table and the exports, which would have nothing either."""
    return dmc.Text(drawn.why_empty, size="sm", className="nothing")


def graph(name: str, title: str, figure: Figure, *, kind: str = "figure") -> Any:
    """A figure with a label for screen readers."""
    height = figure["layout"].get("height", 380)
    inner = dcc.Graph(
        id=part_id(kind, name),
        figure=figure,
        config=PLOTLY_CONFIG | {"responsive": "auto"},
        style={"minHeight": height},
    )
    label = f"Figure: {title}. Its numbers are in the table below."
    return html.Div(inner, role="group", className="figure", tabIndex="0", **{"aria-label": label})


def _tools(part: Part[Any]) -> Any:
    files = [
        html.A(
            kind.upper(),
            href=f"/export/{part.name}.{kind}",
            **{"data-export": f"/export/{part.name}.{kind}"},
            download="",
        )
        for kind in ("csv", "md", "tex")
    ]
    pictures = [
        html.Button(kind.upper(), type="button", **{"data-picture": f"{part.name}.{kind}"})
        for kind in ("svg", "png")
        if part.draw
    ]
    return html.Div(["Save as", *files, *pictures], className="tools")


def table(drawn: Drawn) -> Any:
    """A part's table, or what replaces it, or the reason why there is none."""
    if drawn.why_empty:
        return _nothing(drawn)
    body = frame_table(drawn.table) if drawn.make_body is None else drawn.make_body()
    return html.Div([body, dmc.Text(drawn.note, size="sm")]) if drawn.note else body


def frame_table(frame: pd.DataFrame) -> Any:
    """The first rows of a frame; trial ids link to their pages.

    With links, every cell is a component, for which Dash takes a millisecond each, so fewer rows are shown. Without,
    the browser makes the cells from `data-rows`.
    """
    linked = [name for name in frame.columns if name in _TRIALS]
    most = MAX_LINKED_ROWS if linked else MAX_ROWS
    first = frame.head(most)
    frame = frame.loc[:, (first.notna() & (first != "")).any() | (len(first) == 0)]  # without empty columns
    sides = [f"n{n}" for n, name in enumerate(frame.columns, 1) if pd.api.types.is_numeric_dtype(frame[name])]
    wrapped = [f"w{n}" for n, name in enumerate(frame.columns, 1) if name in _WRAPPED]
    look = " ".join(["plain", *sides, *wrapped])
    if not linked:  # with a key, as React must not put the cells of a linked table behind these
        return html.Table(key="rows", className=look, **{"data-rows": plain_rows(frame, most)})
    names = [str(name) for name in frame.columns]
    rows, cut = rows_of(frame.head(most)), _cut(frame, most)
    head = html.Thead(html.Tr([html.Th(name, scope="col") for name in names]))
    body = html.Tbody([html.Tr([_cell(*pair) for pair in zip(names, row, strict=True)]) for row in rows])
    return html.Table([*([html.Caption(cut)] if cut else []), head, body], className=look)


def plain_rows(frame: pd.DataFrame, most: int) -> str:
    """The first `most` rows of any frame as JSON, from which the browser makes a table."""
    body = [[_plain(cell) for cell in row] for row in rows_of(frame.head(most))]
    return json.dumps({"caption": _cut(frame, most), "head": [str(name) for name in frame.columns], "body": body})


def _cut(frame: pd.DataFrame, most: int) -> str | None:
    return f"The first {most:,} of {len(frame):,} rows; the CSV has all." if len(frame) > most else None


def _plain(cell: str) -> str | list[str]:
    """Text; with its layer strip, also the words for those who hear it."""
    if not isinstance(cell, FreezeName) or not cell.squares:
        return cell
    return [f"{cell.squares} {cell}", f"{cell.heard}: {cell}"]


def _cell(column: str, word: str) -> Any:
    if isinstance(word, FreezeName):
        return html.Td([squares_of(word), str(word)])
    return html.Td(trial_link(word) if column in _TRIALS and word else word)


def squares_of(name: FreezeName) -> Any:
    """The strip of a name as a component; empty if it has none."""
    if not name.squares:
        return ""
    return html.Span(name.squares, className="strip", role="img", title=name.heard, **{"aria-label": name.heard})


def trial_link(trial_id: str) -> Any:
    """A link to a trial's page."""
    return dcc.Link(trial_id, href=f"/trial/{quote(trial_id, safe='')}")


def notices(lines: Sequence[str], colour: str, title: str) -> Any:
    """A box of messages; None if there are none."""
    if not lines:
        return None
    return dmc.Alert([html.Div(line) for line in lines], title=title, color=colour, variant="outline")


def marked_word(word: str, remark: str) -> Any:
    """A word of a sentence whose label is wrong or disputed, and the remark on it."""
    return html.Mark([word, html.Span(f" {remark}", className="tag")], className="wrong")


def copy_box(text: str, what: str) -> Any:
    """Text in a box with a button that copies it."""
    copy = dcc.Clipboard(content=text, title=f"Copy {what}", className="copy")
    return html.Div([html.Code(text, tabIndex="0"), copy], className="copied")
