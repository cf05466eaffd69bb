"""The Dash app over a store.

    app = make_app(Frames(open_store("results")))

The URL is the only state. Controls write it (in the browser, `assets/permafrost.js`), and everything shown follows from
it and from the store: `state` holds path, query and colour scheme, `version` the version of the store's snapshot.
"""

from __future__ import annotations

from pathlib import Path

import dash
from dash import ALL, ClientsideFunction, Input, Output, State

from dashboards.app import controls as control
from dashboards.app.callbacks import add_callbacks
from dashboards.app.lean_dash import INDEX, LeanDash
from dashboards.app.page_cache import PageCache
from dashboards.app.routes import add_exports, add_trials
from dashboards.app.shell import shell
from dashboards.data.frames import Frames, Snapshot
from dashboards.data.page_query import PageQuery
from dashboards.data.selection import select
from dashboards.views.answer import page_sentences
from dashboards.views.kit.components import part_id
from dashboards.views.sweep_list import front_sweep


def make_app(frames: Frames, front: PageQuery | None = None) -> dash.Dash:
    """The app over a store, ready for `dashboards.serving`.

    Args:
        frames: Of the store.
        front: What the first page opens where its address names no sweep; None for the sweep with most decided answers.
    """
    app = LeanDash(
        "permafrost",
        assets_folder=str(Path(__file__).parents[1] / "assets"),
        title="Permafrost",
        update_title="",
        suppress_callback_exceptions=True,
        serve_locally=True,
        use_pages=False,
        enable_mcp=False,
        index_string=INDEX,
        compress=False,
    )
    cache = PageCache(frames)
    app.front = lambda: front or _front(cache.snapshot())
    app.layout = lambda: shell(cache.snapshot().version)
    _browser_callbacks(app)
    add_callbacks(app, cache)
    add_exports(app, cache)
    add_trials(app, cache)
    return app


def _front(snapshot: Snapshot) -> PageQuery:
    """The sweep to open, if it is another one than the newest, which opens without a word in the address."""
    sweep = front_sweep(snapshot)
    return PageQuery() if sweep == next(iter(snapshot.sweeps), "") else PageQuery(sweep=sweep)


def answer_ahead(frames: Frames, front: PageQuery | None = None) -> None:
    """Compute what the first page says, of the same arguments as `make_app`: it is kept, and the first visit would
    wait for it up to some seconds.
    """
    snapshot = frames.refresh()
    page_sentences(select(snapshot, front or _front(snapshot)))


def _browser_callbacks(app: dash.Dash) -> None:
    name = "permafrost"
    app.clientside_callback(
        ClientsideFunction(name, "state"),
        Output("state", "data"),
        Output("mantine", "forceColorScheme"),
        Output("path", "data"),
        Input("url", "pathname"),
        Input("url", "search"),
        State("state", "data"),
    )
    app.clientside_callback(
        ClientsideFunction(name, "news"),
        Input("state", "data"),
        Input("version", "data"),
        Input("rendered", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction(name, "links"),
        Output({"link": ALL}, "href"),
        Output({"link": ALL}, "active"),
        Input("path", "data"),
        Input("later", "data"),
        State({"link": ALL}, "id"),
    )
    values = [Input(control.control_id(control_name), "value") for control_name in (*control.NAMES, "theme")]
    app.clientside_callback(
        ClientsideFunction(name, "write"),
        Output("url", "search"),
        Output("state", "data", allow_duplicate=True),
        *values,
        Input("control-pause", "checked"),
        State("resolved", "data"),
        State("state", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction(name, "open"),
        Output("url", "pathname"),
        Input(part_id("figure", ALL), "clickData"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction(name, "age"),
        Output("age", "children"),
        Input("second", "n_intervals"),
        Input("about", "data"),
    )
