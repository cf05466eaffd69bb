"""Routes of the server other than its pages: files with what the pages show, and the rows of the grid of trials."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

import dash
from flask import Response, request

from dashboards.app.callbacks import NO_FIGURE, PageCache, asked_search, not_found
from dashboards.data.selection import parse_query, provenance, versions_of
from dashboards.data.tables import FORMATS
from dashboards.report.files import table_file
from dashboards.report.html import as_html, page_as_html
from dashboards.report.sections import sections
from dashboards.views.answer import page_sentences
from dashboards.views.kit.cards import short_sentence
from dashboards.views.kit.drawing import LIGHT
from dashboards.views.kit.part import compute
from dashboards.views.registry import PARTS, VIEWS
from dashboards.views.sweep_list import answers_of_sweep
from dashboards.views.trials import trials_csv, trials_on_paper
from trials.errors import NothingMatchedError

_NO_SWEEP = "The store has no sweep yet."
_MOST_FILES = 3  # files being made or waited for at a time; further requests are answered 503
_RETRY_S = 10  # seconds after which a refused client should try again


class FileQueue:
    """Makes files that take seconds one at a time, so that pages stay fast; at most `_MOST_FILES` requests queue."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(_MOST_FILES)
        self._turn = threading.Lock()

    def queued(self, view: Callable[..., Response]) -> Callable[..., Response]:
        """Wrap a view: it answers 503 if the queue is full, and makes no file for HEAD or a client that has gone."""

        @functools.wraps(view)
        def answered(**values: str) -> Response:
            if request.method == "HEAD":
                return Response()
            if not self._places.acquire(blocking=False):
                return _busy()
            try:
                with self._turn:
                    has_left = request.environ.get("waitress.client_disconnected", bool)
                    return _busy() if has_left() else view(**values)
            finally:
                self._places.release()

        return answered


def _busy() -> Response:
    why = f"Other files are being made. Try again in {_RETRY_S} s.\n"
    return Response(why, 503, mimetype="text/plain", headers={"Retry-After": str(_RETRY_S)})


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

    def page(name: str) -> Response:
        view = next((view for view in VIEWS.values() if view.name == name and view.parts), None)
        if view is None:
            return not_found("This page does not exist.")
        selection = cache.select(asked_search())
        if selection.sweep is None:
            return not_found(_NO_SWEEP)
        drawn = [(part, compute(part, selection, LIGHT)) for part in view.parts]
        answers = page_sentences(selection) if view.path == "/" else []
        text = page_as_html(view.title, view.question, answers, drawn, provenance(view.shows(selection)).line)
        named = {"Content-Disposition": f'attachment; filename="permafrost-{name}.html"'}
        return Response(text, mimetype="text/html", headers=named)

    def answers() -> Response:
        """The answers of a sweep on one line, which the list of sweeps requests for each of its rows."""
        query, _ = parse_query(asked_search())
        return Response(short_sentence(answers_of_sweep(cache.snapshot(), query)), mimetype="text/plain")

    app.server.add_url_rule("/answers.txt", view_func=answers)
    queue = FileQueue()
    app.server.add_url_rule("/export/<name>.<kind>", view_func=queue.queued(export))
    app.server.add_url_rule("/page/<name>.html", view_func=queue.queued(page))
    app.server.add_url_rule("/report.html", view_func=queue.queued(report))


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
