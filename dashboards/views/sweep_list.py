"""The sweeps of a store that has several: how far each is, its answer in short, and the age of its last row.

The answers of a sweep take up to a second. Those of the newest sweeps are computed when the list is asked for, which is
after the first figure is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dash
import pandas as pd
from dash import ALL, ClientsideFunction, Input, Output, dcc, html

from dashboards.data.frames import EVERYTHING, Sweep
from dashboards.data.page_query import PageQuery
from dashboards.data.selection import Selection, state_of
from dashboards.views.kit.cards import answers_of_page, in_short
from dashboards.views.kit.components import part_id
from dashboards.views.kit.part import EmptyPartError, Part
from orchestrator.config.quantities import counted
from trials.state import State as TrialState

MOST_ANSWERED = 8  # sweeps whose answers are computed
_KEPT = ("tolerance", "cost", "budget", "theme", "pause")  # of the address, when another sweep is opened


def prepare_sweeps(selection: Selection) -> Selection:
    """A store with one sweep needs no list."""
    if len(selection.snapshot.sweeps) < 2:
        raise EmptyPartError("This store has one sweep.")
    return selection


def sweep_list(selection: Selection) -> Any:
    """The sweeps, the newest first, with the answers of those that have a completed trial."""
    kept = PageQuery(**{name: getattr(selection.query, name) for name in _KEPT})
    sweeps = selection.snapshot.sweeps.values()
    answered = [sweep.name for sweep in sweeps if sweep.name != EVERYTHING and _n_completed(sweep)][:MOST_ANSWERED]
    lines = [_line(sweep, kept, _in_short(selection, sweep) if sweep.name in answered else "") for sweep in sweeps]
    return html.Ul(lines)


def sweeps_table(selection: Selection) -> pd.DataFrame:
    """One row per sweep."""
    sweeps = list(selection.snapshot.sweeps.values())
    return pd.DataFrame(
        {
            "sweep": [sweep.name for sweep in sweeps],
            "state": [state_of(sweep) for sweep in sweeps],
            "trials": [len(sweep.trials) for sweep in sweeps],
            "completed": [_n_completed(sweep) for sweep in sweeps],
        }
    )


def _line(sweep: Sweep, kept: PageQuery, in_short: str) -> Any:
    """`name: running, 12 of 64 trials completed, last row 3 min ago. Freeze nothing.`; the browser writes the age."""
    parts: list[Any] = [
        f": {state_of(sweep)}, {_n_completed(sweep):,} of {counted(len(sweep.trials), 'trial')} completed"
    ]
    if sweep.last_row is not None:
        when = f"{pd.Timestamp(sweep.last_row, unit='s'):%Y-%m-%d %H:%M} UTC"
        age = html.Span(title=when, id=part_id("age", sweep.name), **{"data-time": sweep.last_row})
        parts += [", last row ", age]
    answer = html.Div(in_short) if in_short else None
    return html.Li([dcc.Link(sweep.name, href=f"/{kept.but(sweep=sweep.name).search()}"), *parts, answer])


def _n_completed(sweep: Sweep) -> int:
    return int((sweep.trials["state"] == TrialState.COMPLETED.value).sum())


def _in_short(selection: Selection, sweep: Sweep) -> str:
    try:
        return in_short(answers_of_page(replace(selection, sweep=sweep, asked=PageQuery())).answers)
    except EmptyPartError:  # a setting has two trials of one seed: its own page says so
        return ""


def add_sweep_callbacks(app: dash.Dash, select: Callable[[str], Selection]) -> None:
    """Count the ages of the last rows."""
    app.clientside_callback(
        ClientsideFunction("permafrost", "ages"),
        Output(part_id("age", ALL), "children"),
        Input("second", "n_intervals"),
        Input(part_id("age", ALL), "data-time"),
    )


SWEEPS = Part(
    "answer-sweeps",
    "Sweeps of this store",
    "How far each is, and its answers in short.",
    prepare_sweeps,
    sweeps_table,
    body=lambda info, look: sweep_list(info),
    any_state=True,
    of_store=True,
    if_any=True,
)
