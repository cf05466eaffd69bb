"""The sweeps of a store that has several: how far each is, its answer in short, and the age of its last row.

The answers of a sweep take up to some seconds, so the list comes without them: the browser asks for one after the other
(`assets/permafrost.js`), and says in their place that they are on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dash
import pandas as pd
from dash import ALL, ClientsideFunction, Input, Output, dcc, html

from dashboards.data.frames import EVERYTHING, Snapshot, Sweep
from dashboards.data.selection import PageQuery, Selection, select, state_of
from dashboards.views.kit.cards import answers_of_page, questions_of
from dashboards.views.kit.components import part_id
from dashboards.views.kit.part import EmptyPartError, Part
from orchestrator.analysis.answer import Answer
from orchestrator.config.quantities import amount
from orchestrator.store.plans import is_beside
from trials.record import State as TrialState

MOST_ANSWERED = 8  # newest sweeps whose answers are computed
MOST_WEIGHED = 12  # questions of the newest sweeps that are answered to know which sweep opens: some seconds
_KEPT = (
    "tolerance",
    "cost",
    "budget",
    "tag",
    "theme",
    "pause",
)  # query keys that are kept when another sweep is opened


def prepare_sweeps(selection: Selection) -> Selection:
    """A store with one sweep needs no list."""
    if len(selection.snapshot.sweeps) < 2:
        raise EmptyPartError("This store has one sweep.")
    return selection


def sweep_list(selection: Selection) -> Any:
    """The sweeps, the newest first, with places for the answers of those that have a completed trial."""
    kept = PageQuery(**{name: getattr(selection.query, name) for name in _KEPT})
    alike = kept.but(tolerance=selection.plan.tolerance, theme="auto", pause=False)
    answered = {sweep.name for sweep in answerable(selection.snapshot)}
    sweeps, tag = selection.snapshot.sweeps.values(), selection.query.tag
    lines = [_line(sweep, kept, alike, sweep.name in answered) for sweep in sweeps if tag in ("", *sweep.note.tags)]
    limit = amount(selection.plan.tolerance, "point")
    words: list[Any] = [f"What each would freeze to lose at most {limit}."]
    if tag:
        every = dcc.Link("Show all", href=f"/{selection.url_query.but(tag='').search()}")
        words += [f" {len(lines)} of {len(sweeps)}, tagged {tag}. ", every]
    return html.Div([html.P(words), html.Ul(lines)])


def answerable(snapshot: Snapshot) -> list[Sweep]:
    """The newest sweeps with a completed trial, without those that were made beside a question (`is_beside`)."""
    sweeps = [sweep for sweep in _questions(snapshot) if _n_completed(sweep)]
    return sweeps[:MOST_ANSWERED]


def _questions(snapshot: Snapshot) -> list[Sweep]:
    names = snapshot.sweeps.keys()
    return [s for s in snapshot.sweeps.values() if s.name != EVERYTHING and not is_beside(s.name, names)]


def answers_of_sweep(snapshot: Snapshot, query: PageQuery) -> list[Answer]:
    """The answers of a query's sweep; none if a setting has two trials of one seed, which its page then says."""
    try:
        return answers_of_page(select(snapshot, query)).answers
    except EmptyPartError:
        return []


def front_sweep(snapshot: Snapshot) -> str:
    """The sweep that opens where none is named: of the newest the one with most decided answers, else the newest. A
    sweep that was made beside a question, as of a model trained from its answer, opens by its name alone.
    """
    sweeps, n_questions = list[Sweep](), 0
    for sweep in answerable(snapshot):
        n_questions += len(questions_of(sweep.trials))
        if sweeps and n_questions > MOST_WEIGHED:
            break
        sweeps.append(sweep)
    newest = next((sweep.name for sweep in _questions(snapshot)), next(iter(snapshot.sweeps), ""))
    if len(sweeps) < 2:
        return newest
    answered = {sweep.name: answers_of_sweep(snapshot, PageQuery(sweep=sweep.name)) for sweep in sweeps}
    n_decided = {sweep: sum(answer.decided for answer in found) for sweep, found in answered.items()}
    most = max(n_decided.values())
    return next(name for name, n in n_decided.items() if n == most) if most else newest


def sweeps_table(selection: Selection) -> pd.DataFrame:
    """One row per `sweep`: its `state`, `trials`, `completed` and more."""
    sweeps = list(selection.snapshot.sweeps.values())
    return pd.DataFrame(
        {
            "sweep": [sweep.name for sweep in sweeps],
            "state": [state_of(sweep) for sweep in sweeps],
            "trials": [len(sweep.trials) for sweep in sweeps],
            "completed": [_n_completed(sweep) for sweep in sweeps],
            "note": [str(sweep.note) for sweep in sweeps],
        }
    )


def _line(sweep: Sweep, kept: PageQuery, alike: PageQuery, is_answered: bool) -> Any:
    """`name: running, 12 of 64 trials completed, last row 3 min ago. Freeze nothing.`; the browser writes the age and
    fetches the answer from `data-answer`, again where a trial has ended since.

    Args:
        kept: What the address of its page keeps of this one's.
        alike: What its answer is asked with, as that of this page is.
    """
    parts: list[Any] = [
        f": {state_of(sweep)}, {_n_completed(sweep):,} of {amount(len(sweep.trials), 'trial')} completed"
    ]
    if sweep.last_row is not None:
        when = f"{pd.Timestamp(sweep.last_row, unit='s'):%Y-%m-%d %H:%M} UTC"
        age = html.Span(title=when, id=part_id("age", sweep.name), **{"data-time": sweep.last_row})
        parts += [", last row ", age]
    address = f"/answers.txt{alike.but(sweep=sweep.name).search()}#{_n_completed(sweep)}"
    answer = html.Div(className="fetched", **{"data-answer": address}) if is_answered else None
    tags = [dcc.Link(f"#{tag}", href=f"/{kept.but(tag=tag).search()}", className="tag") for tag in sweep.note.tags]
    note = html.Div([sweep.note.text, *tags], className="note") if str(sweep.note) else None
    return html.Li([dcc.Link(sweep.name, href=f"/{kept.but(sweep=sweep.name).search()}"), *parts, note, answer])


def _n_completed(sweep: Sweep) -> int:
    return int((sweep.trials["state"] == TrialState.COMPLETED.value).sum())


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
    "How far each is, and its answers at the tolerance of this page.",
    prepare_sweeps,
    sweeps_table,
    body=lambda info, look: sweep_list(info),
    any_state=True,
    of_store=True,
    if_any=True,
)
