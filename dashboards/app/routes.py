"""Routes of the server other than its pages: files with what the pages show, and the rows of the grid of trials."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

import dash
from flask import Response

from dashboards.app.callbacks import NO_FIGURE, PageCache, asked_search, not_found
from dashboards.data.selection import parse_query, provenance, versions_of
from dashboards.data.tables import FORMATS
from dashboards.report.files import table_file
from dashboards.report.html import as_html
from dashboards.report.sections import sections
from dashboards.views.kit.cards import in_short
from dashboards.views.kit.drawing import LIGHT
from dashboards.views.kit.part import compute
from dashboards.views.registry import PARTS
from dashboards.views.sweep_list import answers_of_sweep
from dashboards.views.trials import trials_csv, trials_on_paper
from trials.errors import NothingMatchedError

_NO_SWEEP = "The store has no sweep yet."
_turn = threading.Lock()


def in_turn(view: Callable[..., Response]) -> Callable[..., Response]:
    """A view that makes files which take seconds: one at a time, so that pages stay fast."""

    @functools.wraps(view)
    def answered(**values: str) -> Response:
        with _turn:
            return view(**values)

    return answered


def add_exports(app: dash.Dash, cache: PageCache) -> None:
    """Add the routes of files with what a page shows; they take the page's own query string."""

    def export(name: str, kind: str) -> Response:
        part = PARTS.get(name)
        if part is None or kind not in FORMATS:
            return not_found(NO_FIGURE)
        selection = cache.select(asked_search())
        if selection.sweep is None:
            return not_found(_NO_SWEEP)
        drawn = compute(part, selection, LIGHT)
        text = table_file(part, drawn, provenance(part.shows(selection)), kind)
        named = {"Content-Disposition": f'attachment; filename="permafrost-{part.name}.{kind}"'}
        return Response(text, mimetype=FORMATS[kind], headers=named)

    def report() -> Response:
        query, _ = parse_query(asked_search())
        snapshot = cache.snapshot()
        query = query.but(sweep=query.sweep or next(iter(snapshot.sweeps), ""))
        try:
            all_sections = sections(snapshot, query, versions_of(snapshot.store))
        except NothingMatchedError as error:
            return not_found(str(error))
        named = {"Content-Disposition": 'attachment; filename="permafrost-report.html"'}
        return Response(as_html(query.sweep, all_sections), mimetype="text/html", headers=named)

    def answers() -> Response:
        """The answers of a sweep on one line, which the list of sweeps requests for each of its rows."""
        query, _ = parse_query(asked_search())
        return Response(in_short(answers_of_sweep(cache.snapshot(), query)), mimetype="text/plain")

    app.server.add_url_rule("/answers.txt", view_func=answers)
    app.server.add_url_rule("/export/<name>.<kind>", view_func=in_turn(export))
    app.server.add_url_rule("/report.html", view_func=in_turn(report))


def add_trials(app: dash.Dash, cache: PageCache) -> None:
    """Add the routes with the rows of the grid of trials, as CSV and JSON."""

    def trials(kind: str) -> Response:
        """The rows that the grid of trials shows: CSV to save, or JSON to print."""
        selection = cache.select(asked_search())
        if selection.sweep is None:
            return not_found(_NO_SWEEP)
        if kind == "json":
            return Response(trials_on_paper(selection), mimetype="application/json")
        named = {"Content-Disposition": 'attachment; filename="permafrost-trials.csv"'}
        return Response(trials_csv(selection), mimetype="text/csv", headers=named)

    app.server.add_url_rule("/trials.<any(csv, json):kind>", view_func=trials)
