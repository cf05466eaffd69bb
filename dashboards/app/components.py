"""How parts, tables and trials become components of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import dash_mantine_components as dmc
import pandas as pd
from dash import dcc, html

from dashboards.data.tables import rows_of
from dashboards.views.part import Drawn, Part
from dashboards.views.theme import PLOTLY_CONFIG, Figure

MOST_ROWS, MOST_LINKED = 200, 50
_TRIALS = ("trial", "example")
_WORDS = {"verdict", "reason", "note", "setting", "value", "answer"}


def part_id(kind: str, name: Any) -> dict[str, Any]:
    """Of a component of a part.

    Args:
        kind: `figure`, `place` (of a figure), `numbers` (opens its table), `table` (of a figure), `only` (a table
            alone), `extra` (of a view), `still` (a figure that stays as it came).
        name: The part's, or what callbacks take instead: `MATCH`, `ALL`.
    """
    return {"kind": kind, "part": name}


def part_card(part: Part[Any], drawn: Drawn | None) -> Any:
    """A part with its figure, its table and its exports.

    Args:
        part: Any.
        drawn: None for one that will come when the page is there; its place costs no drawing.
    """
    body: list[Any] = []
    if part.draw is not None:
        inner = None if drawn is None else figure_of(part, drawn)
        body = [html.Div(inner, id=part_id("place", part.name), className="place"), numbers(part.name)]
    else:
        rows = None if drawn is None else table(drawn)
        body = [html.Div(rows, id=part_id("only", part.name), className="wide", tabIndex="0", role="group")]
    about = dmc.Text(part.about, size="xs", className="about")
    head = [dmc.Title(part.title, order=2, size="h4"), about, *body, _tools(part)]
    return dmc.Paper(dmc.Stack(head, gap="xs"), p="md", withBorder=True, className="part", **{"data-part": part.name})


def figure_of(part: Part[Any], drawn: Drawn) -> Any:
    """The figure of a part; None for a table alone."""
    return None if drawn.figure is None else graph(part.name, part.title, drawn.figure)


def graph(name: str, title: str, figure: Figure, *, kind: str = "figure") -> Any:
    """A figure, named for those who cannot see it."""
    height = figure["layout"].get("height", 380)
    inner = dcc.Graph(
        id=part_id(kind, name),
        figure=figure,
        config=PLOTLY_CONFIG | {"responsive": "auto"},
        style={"minHeight": height},
    )
    return html.Div(inner, role="group", **{"aria-label": f"Figure: {title}. Its numbers are in the table below."})


def numbers(name: str) -> Any:
    """The table of a figure, filled when it is opened."""
    item = dmc.AccordionItem(
        [
            dmc.AccordionControl("The numbers", py=4),
            dmc.AccordionPanel(html.Div(id=part_id("table", name), className="wide", tabIndex="0", role="group")),
        ],
        value="open",
    )
    return dmc.Accordion(
        item, id=part_id("numbers", name), value=None, variant="default", chevronPosition="left", order=3
    )


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
    """What a part says in numbers, or why it says nothing."""
    return dmc.Text(drawn.empty) if drawn.empty else frame_table(drawn.table)


def frame_table(frame: pd.DataFrame) -> Any:
    """A frame's first rows; trials lead to their pages.

    A table with links is built of a component a cell, which Dash takes a millisecond each for: it shows fewer rows.
    """
    linked = [name for name in frame.columns if name in _TRIALS]
    most = MOST_LINKED if linked else MOST_ROWS
    rows = list(rows_of(frame.head(most)))
    said = f"The first {most} of {len(frame):,} rows; the CSV has all." if len(frame) > most else None
    sides = [f"n{n}" for n, name in enumerate(frame.columns, 1) if pd.api.types.is_numeric_dtype(frame[name])]
    words = [f"w{n}" for n, name in enumerate(frame.columns, 1) if name in _WORDS]
    look = {
        "striped": True,
        "withTableBorder": True,
        "fz": "sm",
        "captionSide": "top",
        "className": " ".join(sides + words),
    }
    if not linked:
        return dmc.Table(data={"caption": said, "head": [str(name) for name in frame.columns], "body": rows}, **look)
    head = html.Thead(html.Tr([html.Th(name, scope="col") for name in frame.columns]))
    body = html.Tbody([html.Tr([_cell(*each) for each in zip(frame.columns, row, strict=True)]) for row in rows])
    return dmc.Table([*([html.Caption(said)] if said else []), head, body], **look)


def _cell(column: str, word: str) -> Any:
    return html.Td(trial_link(word) if column in _TRIALS and word else word)


def trial_link(trial_id: str) -> Any:
    """To a trial's page."""
    return dcc.Link(trial_id, href=f"/trial/{quote(trial_id, safe='')}")


def notices(lines: Sequence[str], colour: str, title: str) -> Any:
    """Lines that a person must see."""
    if not lines:
        return None
    return dmc.Alert([html.Div(line) for line in lines], title=title, color=colour, variant="outline")


def card(label: str, value: str, hint: str = "") -> Any:
    """One figure with its name."""
    inner = [dmc.Text(label, size="xs"), dmc.Text(value, fw=700, size="lg"), dmc.Text(hint, size="xs")]
    return dmc.Paper(dmc.Stack(inner, gap=2), p="sm", withBorder=True)
