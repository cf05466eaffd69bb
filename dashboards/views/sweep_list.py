"""The sweeps of a store that has several: how far each is, its answer in short, and the age of its last row.

The answers of a sweep take up to a second, so the page comes without those that are not known yet. They are computed
after its first figure is drawn: those of the newest sweeps, one after the other in one request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import dash
import pandas as pd
from dash import ALL, MATCH, ClientsideFunction, Input, Output, State, dcc, html, no_update
from pydantic import validate_call

from dashboards.data.frames import EVERYTHING, Sweep
from dashboards.data.page_query import PageQuery
from dashboards.data.selection import Selection, state_of
from dashboards.views.kit.answers import MOST_CARDS, answers_of_sweep, headline, known_answers_of_sweep
from dashboards.views.kit.components import part_id
from dashboards.views.kit.part import PageState
from orchestrator.analysis.answer import Answer
from orchestrator.analysis.wording import NO_CANDIDATES
from orchestrator.config.quantities import counted
from orchestrator.store.schema import State as TrialState

MOST_ANSWERED = 8  # sweeps whose answers are computed
_KEPT = ("tolerance", "cost", "budget", "theme", "pause")  # of the address, when another sweep is opened


def sweep_list(selection: Selection) -> list[Any]:
    """The sweeps, the newest first, with the answers that are known; nothing for a store of one sweep."""
    sweeps = selection.snapshot.sweeps
    if len(sweeps) < 2:
        return []
    n = len(sweeps) - (EVERYTHING in sweeps)
    lines = html.Ul(_lines(selection), id=part_id("sweeps", "all"))
    return [html.Details([html.Summary(f"{counted(n, 'sweep')} in this store"), lines], open=True)]


def _lines(selection: Selection) -> list[Any]:
    kept = PageQuery(**{name: getattr(selection.query, name) for name in _KEPT})
    sweeps = selection.snapshot.sweeps.values()
    return [_line(each, kept, _known_in_short(replace(selection, sweep=each))) for each in sweeps]


def _line(sweep: Sweep, kept: PageQuery, in_short: str) -> Any:
    """`name: running, 12 of 64 trials completed, last row 3 min ago. Freeze nothing.`; the browser writes the age."""
    words: list[Any] = [
        f": {state_of(sweep)}, {_n_completed(sweep):,} of {counted(len(sweep.trials), 'trial')} completed"
    ]
    if sweep.last_row is not None:
        when = f"{pd.Timestamp(sweep.last_row, unit='s'):%Y-%m-%d %H:%M} UTC"
        age = html.Span(title=when, id=part_id("age", sweep.name), **{"data-time": sweep.last_row})
        words += [", last row ", age]
    answer = html.Div(in_short) if in_short else None
    return html.Li([dcc.Link(sweep.name, href=f"/{kept.but(sweep=sweep.name).search()}"), *words, answer])


def _n_completed(sweep: Sweep) -> int:
    return int((sweep.trials["state"] == TrialState.COMPLETED.value).sum())


def _known_in_short(selection: Selection) -> str:
    found = known_answers_of_sweep(selection, MOST_CARDS)
    return "" if found is None else _in_short(found[0])


def _in_short(found: Sequence[Answer]) -> str:
    """The headlines, as in `Freeze the first 2 of 6 layers (3 of 4), Not decided yet (1 of 4).`."""
    headlines = Counter(map(headline, found))
    if len(headlines) < 2:
        return f"{next(iter(headlines))}." if headlines else NO_CANDIDATES
    return f"{', '.join(f'{words} ({n} of {len(found)})' for words, n in headlines.items())}."


def _find_answers(selection: Selection) -> bool:
    """Compute the answers of the newest sweeps with a completed trial; whether any was not known."""
    sweeps = [each for each in selection.snapshot.sweeps.values() if each.name != EVERYTHING and _n_completed(each)]
    asked = [replace(selection, sweep=sweep) for sweep in sweeps[:MOST_ANSWERED]]
    unknown = [each for each in asked if known_answers_of_sweep(each, MOST_CARDS) is None]
    for each in unknown:
        with suppress(ValueError):  # a setting has two trials of one seed: its own page says so
            answers_of_sweep(each, MOST_CARDS)
    return bool(unknown)


def add_sweep_callbacks(app: dash.Dash, select: Callable[[str], Selection]) -> None:
    """Find the answers once the first figure is drawn, and again for a list that came with new rows; count the ages."""

    @app.callback(  # type: ignore[untyped-decorator]
        output=Output(part_id("sweeps", MATCH), "children"),
        inputs={"drawn": Input("later", "data"), "name": Input(part_id("sweeps", MATCH), "id")}
        | {"state": State("state", "data")},
    )
    @validate_call
    def show_answers(drawn: PageState | None, name: Mapping[str, str], state: PageState | None) -> Any:
        if drawn is None or state is None or (drawn["path"], drawn["search"]) != (state["path"], state["search"]):
            return no_update  # the first figure is not drawn yet
        selection = select(state["search"])
        return _lines(selection) if _find_answers(selection) else no_update

    app.clientside_callback(
        ClientsideFunction("permafrost", "ages"),
        Output(part_id("age", ALL), "children"),
        Input("second", "n_intervals"),
        Input(part_id("age", ALL), "data-time"),
    )
