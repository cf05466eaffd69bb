"""What stays when the page changes: header, navigation, notices and footer, and places for the controls.

Controls come after the first figure: a browser takes a tenth of the time until then to make them.
"""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from dashboards.data.selection import Selection
from dashboards.views.registry import VIEWS

TICK_MS = 1500


def shell(version: int) -> Any:
    """The layout around the pages; `version` is that of the snapshot, so that the first tick finds nothing new."""
    stores = [
        dcc.Location(id="url", refresh="callback-nav"),
        dcc.Store(id="state"),
        dcc.Store(id="version", data=version),
        dcc.Store(id="path"),
        dcc.Store(id="rendered"),
        dcc.Store(id="first"),
        dcc.Store(id="later"),
        dcc.Store(id="resolved"),
        dcc.Store(id="about"),
        dcc.Interval(id="tick", interval=TICK_MS),
        dcc.Interval(id="second", interval=1000),
    ]
    bar = html.Div(
        [
            dmc.Anchor("Permafrost", href="/", id="home", fw=700, underline="never", refresh=True, className="name"),
            html.Nav(_links(), className="views", **{"aria-label": "Views"}),
            dmc.Text(id="age", size="xs", truncate="end", className="age"),
            dmc.Group(
                [html.Div(id="ray"), *report_dialog(), html.Div(id="switches")],
                gap="xs",
                wrap="nowrap",
                className="switches",
            ),
        ],
        className="bar",
    )
    page = dmc.Stack(
        [
            html.Button(
                "Filters", type="button", id="filters", **{"aria-expanded": "false", "aria-controls": "controls"}
            ),
            html.Div(id="controls", className="controls"),
            html.Div(id="notices"),
            html.Div(id="page"),
            html.Footer(html.Div(id="footer"), className="footer"),
        ],
        gap="xs",
    )
    frame = [dmc.AppShellHeader(bar), dmc.AppShellMain(html.Div(page, id="content", tabIndex="-1"))]
    return dmc.MantineProvider(
        [
            *stores,
            html.A("Skip to content", href="#content", className="skip-link"),
            dmc.AppShell(
                frame, header={"height": {"base": 104, "xs": 88, "lg": 48}}, padding={"base": "xs", "sm": "sm"}
            ),
        ],
        id="mantine",
        forceColorScheme="light",  # until the browser reports its scheme; a change redraws everything
        theme={"primaryColor": "blue", "primaryShade": {"light": 8, "dark": 5}, "defaultRadius": "sm"},
    )


def _links() -> list[Any]:
    return [
        html.Span(
            dmc.NavLink(label=view.title, href=view.path, id={"link": view.path}, refresh=False),
            id={"nav": view.path},
            title=view.question,
        )
        for view in VIEWS.values()
        if view.in_navigation
    ]


def dimmed(selection: Selection) -> tuple[list[str], list[str]]:
    """(CSS classes, tooltips) of the links: those of pages without data are dimmed and say why."""
    shown = [view for view in VIEWS.values() if view.in_navigation]
    why = [view.why_dimmed(selection) for view in shown]
    return ["dimmed" if reason else "" for reason in why], [
        reason or view.question for reason, view in zip(why, shown, strict=True)
    ]


def report_dialog() -> list[Any]:
    """The button that opens the report's dialog, and the dialog; the browser opens and closes it."""
    files = html.A("Download the report (HTML)", href="/report.html", download="", **{"data-export": "/report.html"})
    dialog = html.Dialog(
        [
            html.H2("Report", id="report-title"),
            html.P("Answers, methods, every figure and table of this sweep, as the address selects; prints on A4."),
            html.Div(files, className="tools"),
            html.P("With LaTeX, CSV, SVG and PDF files:"),
            html.Div(id="report-command"),
            html.Div(html.Button("Close", type="button", id="report-close"), className="tools"),
        ],
        id="report-dialog",
        **{"aria-labelledby": "report-title"},
    )
    return [html.Button("Report", type="button", id="report-open"), dialog]


def switches() -> Any:
    """The controls of the header."""
    themes = [{"value": name, "label": name} for name in ("auto", "light", "dark")]
    theme = dmc.Select(
        id="control-theme", data=themes, value="auto", size="xs", w=84, allowDeselect=False, **{"aria-label": "Theme"}
    )
    pause = dmc.Switch(id="control-pause", label="Pause", size="xs", checked=False, **{"aria-label": "Pause"})
    return dmc.Group([theme, pause], gap="xs", wrap="nowrap")
