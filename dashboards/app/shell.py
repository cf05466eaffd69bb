"""What stays when the page changes: header, navigation, notices and footer; and the controls.

There is a control for each field of the page query that can be set; each view names those that it shows. They come
after the first figure: a browser takes a tenth of the time until then to make them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from dashboards.data.frames import EVERYTHING
from dashboards.data.selection import (
    AXES,
    COSTS,
    EACH_BEST,
    EMBEDDINGS,
    GROUPS,
    SPLITS,
    STATES,
    PageQuery,
    Selection,
)
from dashboards.views.kit.part import View
from dashboards.views.registry import VIEWS
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.freeze_names import freeze_name
from trials.metrics.metric import metric_label

TICK_MS = 1500  # between two looks at the store
LABELS = {
    "sweep": "Sweep",
    "corpus": "Task and corpus",
    "model": "Model",
    "setup": "Other settings",
    "size": "Train sizes",
    "strategy": "Strategies",
    "embeddings": "Embeddings",
    "metric": "Metric",
    "split": "Split",
    "cost": "Cost",
    "axis": "X axis",
    "tolerance": "Tolerance (points)",
    "budget": "Maximum cost",
    "freeze": "Setting compared",
    "level": "Labels",
    "state": "State",
    "group": "Group by",
    "find": "Search",
}
_MANY = ("size", "strategy")
_NUMBERS: Mapping[str, Mapping[str, float]] = {
    "tolerance": {"min": 0, "max": 100, "step": 0.1},
    "budget": {"min": 0, "step": 1},
}
FIXED_CHOICES: Mapping[str, Mapping[str, str]] = {
    "embeddings": {"any": "any", "frozen": "frozen", "learning": "trained"},
    "split": {name: name for name in SPLITS},
    "cost": COSTS,
    "axis": AXES,
    "state": {name: name for name in STATES},
    "group": {name: name for name in GROUPS},
}
assert set(FIXED_CHOICES["embeddings"]) == set(EMBEDDINGS)
_TYPED = (*_NUMBERS, "find")
NAMES = tuple(LABELS)
LISTED = tuple(name for name in NAMES if name not in FIXED_CHOICES and name not in _TYPED)  # from the store


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


def control_id(name: str) -> str:
    """Id of a control's component."""
    return f"control-{name}"


def controls() -> list[Any]:
    """All controls; CSS hides those that a view does not use."""
    return [html.Div(_control(name), className=f"control control-{name}") for name in NAMES]


def _control(name: str) -> Any:
    common = {"id": control_id(name), "label": LABELS[name], "size": "xs"}
    if name in _NUMBERS:
        return dmc.NumberInput(**common, **_NUMBERS[name], debounce=300, allowNegative=False)
    if name == "find":
        return dmc.TextInput(**common, debounce=300, placeholder="words")
    if name in _MANY:
        return dmc.MultiSelect(**common, data=[], placeholder="all", clearable=True)
    data = [{"value": value, "label": label} for value, label in FIXED_CHOICES.get(name, {}).items()]
    return dmc.Select(**common, data=data, allowDeselect=False)


def chosen(selection: Selection, view: View | None) -> dict[str, Any]:
    """The value of each control, and under `defaults` their default values as text."""
    of_all = view.of_all if view else ()
    values = {name: _value(selection.url_query if name in of_all else selection.query, name) for name in NAMES}
    asks = DecisionPlan() if selection.sweep is None else selection.sweep.asks
    values["tolerance"] = selection.plan.tolerance
    defaults = PageQuery(tolerance=asks.tolerance)
    return values | {"defaults": {name: _word(getattr(defaults, name)) for name in NAMES}}


def choices(selection: Selection, view: View | None) -> dict[str, list[dict[str, str]]]:
    """The choices of each control that depends on the store."""
    options = dict(selection.options)
    layers = selection.trials["n_layers"].unique().tolist()
    n_layers = int(layers[0]) if len(layers) == 1 else 0  # of several encoders a depth may be all layers of one
    freezes = dict(zip(selection.trials["freeze"], selection.trials["freeze_spec"], strict=True))
    labels: Mapping[str, Callable[[str], str]] = {
        "size": lambda word: f"{int(word):,}",
        "freeze": lambda label: freeze_name(freezes[label], n_layers) if label in freezes else label,
        "metric": metric_label,
        "setup": lambda word: word or "none",
    }
    start = {name: len(_common_start(options.get(name, []))) for name in ("sweep", "corpus")}
    listed = {
        name: [
            {"value": word or " ", "label": labels[name](word) if name in labels else _label(word, start.get(name, 0))}
            for word in options.get(name, [])
        ]
        for name in LISTED
    }
    for name in view.of_all if view else ():
        if name not in _MANY:
            own = [choice for choice in listed[name] if choice["value"] not in (EACH_BEST, " ")]
            listed[name] = [{"value": " ", "label": "all"}, *own]
    return listed


def _label(word: str, start: int) -> str:
    """A choice in what differs from the others: `core` of `freezebench-core`."""
    return (word if word == EVERYTHING else word[start:]).replace("_", " ")


def _common_start(names: Sequence[str]) -> str:
    """The words that all names begin with; empty for a single name. The sweep of all trials does not count."""
    mine = [name for name in names if name != EVERYTHING]
    same = takewhile(lambda letters: len({*letters}) == 1, zip(*mine, strict=False)) if len(mine) > 1 else ()
    start = "".join(letters[0] for letters in same)
    return start[: 1 + max(start.rfind(end) for end in "-_. /")]


def is_choice(name: str, selection: Selection) -> bool:
    """Whether a control has more than one value for what is selected, or its value is not the default."""
    if getattr(selection.query, name) != getattr(PageQuery(), name) and name not in selection.options:
        return True
    if name == "embeddings":
        return selection.sweep is not None and bool(selection.sweep.trials["embeddings"].nunique() > 1)
    if name == "split":
        return "test_score" in selection.trials and bool(selection.trials["test_score"].notna().any())
    return name not in LISTED or len(selection.options.get(name, ())) > 1


def _value(query: PageQuery, name: str) -> Any:
    value = getattr(query, name)
    if name in _MANY:
        return [str(word) for word in value]
    if name in _TYPED:
        return "" if value is None else value
    return value or " "


def _word(value: object) -> str:
    return "" if value is None or value == () else f"{value:g}" if isinstance(value, float) else str(value)
