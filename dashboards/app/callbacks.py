"""What the server answers: pages, their parts and content, and the values of the controls; recent ones are kept."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import shlex
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import dash
import dash_mantine_components as dmc
from dash import ALL, MATCH, Input, Output, State, html, no_update
from flask import Response, request
from plotly.io.json import to_json_plotly
from pydantic import validate_call

from dashboards.app import shell
from dashboards.data.frames import Frames, Snapshot
from dashboards.data.selection import PageQuery, Selection, parse_query, provenance, select, state_of
from dashboards.views.kit.components import copy_box, figure_of, notices, part_card, part_id, table
from dashboards.views.kit.drawing import LIGHT, LOOKS, Look
from dashboards.views.kit.part import Drawn, PageState, Part, View, compute
from dashboards.views.registry import ITEM_PAGES, PARTS, VIEWS
from trials.errors import StoreError
from trials.escaping import web_address

_SELECTIONS, _DRAWN = 4, 12  # in memory; for a large store one takes some megabytes
_CHOSEN = (*shell.NAMES, "theme")
_SHOWN_PROBLEMS = 8
NO_FIGURE = "No figure or format has this name."


class PageCache:
    """Selects and draws for callbacks, and caches the results until the store changes."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self._turn, self._refreshing = threading.Lock(), threading.Lock()
        self._seen: Snapshot | None = None
        self._select = lru_cache(_SELECTIONS)(self._selected)
        self._draw = lru_cache(_DRAWN)(self._computed)

    def snapshot(self) -> Snapshot:
        """The store as it is now; results for older snapshots are dropped."""
        snapshot = self.frames.refresh()
        with self._refreshing:
            if snapshot is not self._seen:
                self._select.cache_clear()
                self._draw.cache_clear()
                self._seen = snapshot
        return snapshot

    def select(self, search: str) -> Selection:
        """The trials that a URL selects."""
        return self._select(self.snapshot(), *_parsed(search))

    @staticmethod
    def _selected(snapshot: Snapshot, query: PageQuery, problems: tuple[str, ...]) -> Selection:
        selection = select(snapshot, query)
        return replace(selection, notices=(*problems, *selection.notices))

    def drawn(self, part: Part[Any], search: str, scheme: str) -> Drawn:
        """A computed part. Its zoom and hidden traces survive new rows, but not a new query (`uirevision`)."""
        with self._turn:  # in turn: in parallel the first would be as late as the last
            return self._draw(self.snapshot(), part.name, *_parsed(search), look_of(scheme))

    def _computed(
        self, snapshot: Snapshot, name: str, query: PageQuery, problems: tuple[str, ...], look: Look
    ) -> Drawn:
        drawn = compute(PARTS[name], self._select(snapshot, query, problems), look)
        if drawn.figure is not None:
            drawn.figure["layout"]["uirevision"] = f"{name}{query.search()}"  # an empty one preserves nothing
        return drawn


def _parsed(search: str) -> tuple[PageQuery, tuple[str, ...]]:
    """The query of a URL without fields that no selection depends on, and its notices."""
    query, problems = parse_query(search)
    return query.but(theme="auto", pause=False), problems


def look_of(scheme: str) -> Look:
    """The look (colours and sizes) of a page."""
    return LOOKS.get(scheme, LIGHT)


def add_callbacks(app: dash.Dash, cache: PageCache) -> None:
    """Register all callbacks, those of views included."""
    _add_pages(app, cache)
    _add_news(app, cache)
    _add_controls(app, cache)
    _add_watch(app, cache)
    for view in VIEWS.values():
        if view.add_callbacks is not None:
            view.add_callbacks(app, cache.select)


def _add_pages(app: dash.Dash, cache: PageCache) -> None:
    """A new path loads a page together with its first figure, which saves a request; `rendered` is its state."""

    @app.callback(
        Output("page", "children"),
        Output("controls", "className"),
        Output("rendered", "data"),
        Input("path", "data"),
        State("state", "data"),
        prevent_initial_call=True,
    )
    @validate_call
    def show_page(path: str, state: PageState) -> Any:
        return *_page(cache, state), state.model_dump()


def _page(cache: PageCache, state: PageState) -> tuple[Any, str]:
    """Components of a page, and the CSS classes of its controls."""
    path = state.path
    prefix, _, item = path.rpartition("/")
    if prefix in ITEM_PAGES:
        return ITEM_PAGES[prefix].build(cache.snapshot(), unquote(item), look_of(state.scheme)), "controls"
    view = VIEWS.get(path)
    if view is None:
        message = "This page does not exist. The links at the top lead to all pages."
        return dmc.Alert(message, title="Not found", color="red"), "controls"
    selection = cache.select(state.search)
    title = html.H1(f"{view.title}: {view.question}", className="only-heard")
    first = next((part for part in view.parts if not part.on_demand), None)
    parts = [
        part_card(part, cache.drawn(part, state.search, state.scheme) if part is first else None) for part in view.parts
    ]
    shows = {"data-shows": _shows(view, selection)}
    content = [html.Div(_content(view, selection), id=part_id("content", path), **shows)]
    file = f"/page/{view.name}.html"
    save = [html.A("Save this page (HTML)", href=file, download="", **{"data-export": file})] if view.parts else []
    return dmc.Stack([title, *content, *parts, *save], gap="xs", className="page"), _shown_controls(view, selection)


def _content(view: View, selection: Selection) -> Any:
    """What stands above the parts: which of several set-ups is shown, and the page's own components."""
    scope = (
        [dmc.Text(selection.scope, size="sm", className="scope")]
        if selection.scope and view.controls and "setup" not in view.of_all
        else []
    )
    return [*scope, *([view.content(selection)] if view.content else [])]


def not_found(why: str) -> Response:
    """A line of text with status 404."""
    return Response(f"{why}\n", 404, mimetype="text/plain")


def asked_search() -> str:
    """The query of the request's address."""
    return f"?{request.query_string.decode('utf-8', 'replace')}"


def _shows(view: View, selection: Selection) -> str:
    """What the content of a view depends on: the same word for the same content."""
    ignored = {name: getattr(PageQuery(), name) for name in view.content_ignores}
    return f"{selection.snapshot.version}{selection.query.but(**ignored).search()}"


def _shown_controls(view: View, selection: Selection) -> str:
    """The CSS classes of a view's controls: those that leave a choice."""
    return " ".join(["controls", *(f"show-{name}" for name in view.controls if shell.is_choice(name, selection))])


def _add_news(app: dash.Dash, cache: PageCache) -> None:
    """Updates of a page after a new query or new rows in the store.

    The browser requests its parts one after the other (`assets/permafrost.js`), each at an address of its own.
    """

    def part(scheme: str, name: str, opened: str = "") -> Response:
        registered = PARTS.get(name)
        if registered is None:
            return not_found(NO_FIGURE)
        drawn = cache.drawn(registered, asked_search(), scheme)
        rows = table(drawn) if opened or registered.draw is None else None
        content = to_json_plotly({"graph": figure_of(registered, drawn), "table": rows})
        return Response(content, mimetype="application/json")

    schemes = ", ".join(f'"{name}"' for name in LOOKS)
    app.server.add_url_rule(f"/part/<any({schemes}):scheme>/<name>", view_func=part)
    app.server.add_url_rule(f"/part/<any({schemes}):scheme>/<name>/<any(opened):opened>", view_func=part)

    @app.callback(
        output=[Output(part_id("content", MATCH), "children"), Output(part_id("content", MATCH), "data-shows")],
        inputs={"state": Input("state", "data"), "version": Input("version", "data")}
        | {"name": State(part_id("content", MATCH), "id"), "before": State(part_id("content", MATCH), "data-shows")},
        prevent_initial_call=True,
    )
    @validate_call
    def show_content(state: PageState, version: int, name: Mapping[str, str], before: str) -> Any:
        view = VIEWS.get(name["part"])
        if view is None or state.path != view.path:
            return no_update, no_update
        selection = cache.select(state.search)
        shows = _shows(view, selection)
        return (no_update, no_update) if shows == before else (_content(view, selection), shows)


def _add_controls(app: dash.Dash, cache: PageCache) -> None:
    """Set the controls to what the URL means, and the notices and footer, once the first figure of a page is drawn."""

    @app.callback(
        Output("controls", "children"),
        Output("switches", "children"),
        Output("later", "data"),
        Input("first", "data"),
        prevent_initial_call=True,
    )
    @validate_call
    def make_controls(state: PageState) -> Any:
        return shell.controls(), shell.switches(), state.model_dump()

    @app.callback(
        output={
            "values": [Output(shell.control_id(name), "value") for name in _CHOSEN],
            "lists": [Output(shell.control_id(name), "data") for name in shell.LISTED],
            "pause": Output("control-pause", "checked"),
            "stopped": Output("tick", "disabled"),
            "resolved": Output("resolved", "data"),
            "notices": Output("notices", "children"),
            "footer": Output("footer", "children"),
            "about": Output("about", "data"),
            "ray": Output("ray", "children"),
            "dimmed": Output({"nav": ALL}, "className"),
            "why": Output({"nav": ALL}, "title"),
            "report": Output("report-command", "children"),
            "shown": Output("controls", "className", allow_duplicate=True),
        },
        inputs={
            "state": Input("later", "data"),
            "before": State("resolved", "data"),
            "lists": [State(shell.control_id(name), "data") for name in shell.LISTED],
        },
        prevent_initial_call=True,
    )
    @validate_call
    def show_controls(state: PageState, before: Mapping[str, Any] | None, lists: list[Any]) -> Any:
        selection = cache.select(state.search)
        query, _ = parse_query(state.search)
        view = VIEWS.get(state.path)
        values = shell.chosen(view.resolved(selection) if view else selection, view) | {
            "theme": query.theme,
            "pause": query.pause,
        }
        values["defaults"] |= {"theme": "auto", "pause": "false"}
        options, previous = shell.choices(selection, view), before or {}
        dimmed, why = shell.dimmed(selection)
        return {
            "values": [no_update if values[name] == previous.get(name) else values[name] for name in _CHOSEN],
            "lists": [
                no_update if options[n] == old else options[n] for n, old in zip(shell.LISTED, lists, strict=True)
            ],
            "pause": query.pause,
            "stopped": query.pause,
            "resolved": no_update if values == before else values,
            "shown": no_update if view is None else _shown_controls(view, selection),
            "dimmed": dimmed,
            "why": why,
            "report": copy_box(_report_command(selection), "the command"),
            **_notices_and_footer(selection, view),
        }


def _report_command(selection: Selection) -> str:
    query = selection.query
    tolerance = [] if query.tolerance is None else ["--tolerance", f"{query.tolerance:g}"]
    return shlex.join(
        ["permafrost", "report", selection.snapshot.address, *([query.sweep] * bool(query.sweep)), *tolerance]
    )


def _notices_and_footer(selection: Selection, view: View | None) -> dict[str, Any]:
    shown = view.shows(selection) if view else selection
    alerts = (
        notices(selection.notices, "yellow", "Parts of the address do not apply here"),
        notices(selection.snapshot.problems[:_SHOWN_PROBLEMS], "red", "Parts of the store cannot be read"),
        dmc.Alert(title=shown.incomplete, color="blue", variant="outline", py=4) if shown.incomplete else None,
    )
    about, ray = header_words(selection)
    empty = f"store {selection.snapshot.address}"
    return {
        "notices": dmc.Stack([alert for alert in alerts if alert is not None], gap="xs"),
        "footer": provenance(shown).line if selection.sweep else empty,
        "about": about,
        "ray": ray,
    }


def header_words(selection: Selection) -> tuple[dict[str, Any], Any]:
    """The state of the sweep for the header, and a link to Ray's dashboard."""
    sweep = selection.sweep
    if sweep is None:
        return {"words": "empty store", "last_row": None}, None
    address = web_address(sweep.ray)
    ray = dmc.Anchor("Ray", href=address, size="xs", target="_blank") if address else None
    return {"words": f"{sweep.name}: {state_of(sweep)}", "last_row": sweep.last_row}, ray


def _add_watch(app: dash.Dash, cache: PageCache) -> None:
    """Check for new rows at every tick."""

    @app.callback(
        Output("version", "data"), Input("tick", "n_intervals"), State("version", "data"), prevent_initial_call=True
    )
    @validate_call
    def look_for_news(ticks: int | None, version: int) -> Any:
        try:
            newest = cache.snapshot().version
        except StoreError:
            return no_update  # storage that does not answer now may do so at the next tick
        return no_update if newest == version else newest
