"""The Dash app over a store.

    app = make_app(Frames(open_store("results")))

The URL is the only state. Controls write it (in the browser, `assets/permafrost.js`), and everything shown follows from
it and from the store: `state` holds path, query and colour scheme, `version` the version of the store's snapshot.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import dash
from dash import ALL, ClientsideFunction, Input, Output, State
from flask import Response, request

from dashboards.app import shell
from dashboards.app.callbacks import PageCache, add_callbacks
from dashboards.app.routes import add_exports, add_trials
from dashboards.data.frames import Frames, Snapshot
from dashboards.data.selection import PageQuery, select
from dashboards.views.answer import page_sentences, text_lines
from dashboards.views.kit.components import part_id
from dashboards.views.kit.drawing import dark_colours
from dashboards.views.sweep_list import front_sweep
from orchestrator.config.quantities import amount
from trials.errors import StoreError

_INDEX = """<!DOCTYPE html>
<html lang="en">
<head>{%metas%}<title>{%title%}</title>{%favicon%}{%css%}</head>
<body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body>
</html>
"""
# Dash puts the scripts of every imported package into every page. The grid's is the second largest, and only Trials has
# a grid: the browser loads it there (`assets/permafrost.js`). The largest is Plotly's: it is fetched at once, and run
# when the first figure comes, so that the answer in words does not wait for it. No page has a table of `dash_table`.
_GRID_SCRIPT = re.compile(r'<script src="([^"]*/dash_ag_grid/[^"]*)"></script>')
_PLOTLY_SCRIPT = re.compile(r'<script src="([^"]*/plotly-cartesian-[^"]*)"></script>')
_LOADING = re.compile(r'<div class="_dash-loading">.*?</div>', re.DOTALL)
_UNUSED_SCRIPT = re.compile(r'<script src="[^"]*/dash_table/[^"]*"></script>')


class LeanDash(dash.Dash):  # type: ignore[misc]  # has no types
    """The app; `front` says what its first page opens, `first_words` what stands on it, of the search of an address."""

    front: Callable[[], PageQuery] = PageQuery
    first_words: Callable[[str], list[str]] = list

    def index(self, *args: object, **kwargs: object) -> object:
        """The first answer of the server; where the first page is asked for without a sweep, the address of the sweep
        that it opens, relative, as a proxy may show the dashboard below a path.
        """
        if not kwargs.get("path") and not request.args.get("sweep"):
            front, query = self.front(), dict(request.args)
            search = urlencode({**dict(parse_qsl(front.search().removeprefix("?"))), **query, "sweep": front.sweep})
            if front.sweep:
                return Response(status=302, headers={"Location": f"./?{search}"})
        return super().index(*args, **kwargs)

    def interpolate_index(self, metas: str = "", scripts: str = "", app_entry: str = "", **others: str) -> str:
        """The first answer of the server: without the scripts that its page does not run, and with what the first page
        says in words, so that nobody looks at a white page until scripts have come.
        """
        words = [] if (request.view_args or {}).get("path") else self.first_words(request.query_string.decode())
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in words)
        skeleton = f'<div class="skeleton"><b>Permafrost</b>{lines}<p class="waits">Loading figures ...</p></div>'
        app_entry = _LOADING.sub(lambda found: skeleton, app_entry)
        grid, plotly = _GRID_SCRIPT.search(scripts), _PLOTLY_SCRIPT.search(scripts)
        assert grid is not None
        assert plotly is not None
        in_light = html.escape(json.dumps({dark: light for light, dark in dark_colours().items()}))
        metas = (
            f'{metas}<meta name="grid-script" content="{grid[1]}"><meta name="in-light" content="{in_light}">'
            f'<link rel="preload" as="script" id="plotly-script" href="{plotly[1]}">'
        )
        lean = _UNUSED_SCRIPT.sub("", scripts.replace(grid[0], "").replace(plotly[0], ""))
        return str(super().interpolate_index(metas=metas, scripts=lean, app_entry=app_entry, **others))


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
        index_string=_INDEX,
        compress=False,
    )
    cache = PageCache(frames)
    app.front = lambda: front or _front(cache.snapshot())
    app.first_words = lambda search: _first_words(cache, search)
    app.layout = lambda: shell.shell(cache.snapshot().version)
    _browser_callbacks(app)
    add_callbacks(app, cache)
    add_exports(app, cache)
    add_trials(app, cache)
    return app


def _front(snapshot: Snapshot) -> PageQuery:
    """The sweep to open, if it is another one than the newest, which opens without a word in the address."""
    sweep = front_sweep(snapshot)
    return PageQuery() if sweep == next(iter(snapshot.sweeps), "") else PageQuery(sweep=sweep)


def _first_words(cache: PageCache, search: str) -> list[str]:
    """The answers of the first page, a line a corpus; none where the store cannot be read, which the page then says."""
    try:
        selection = cache.select(f"?{search}")
        limit = amount(selection.plan.tolerance, "point")
        return [f"To lose at most {limit}:", *text_lines(selection)]
    except StoreError:
        return []


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
    values = [Input(shell.control_id(control_name), "value") for control_name in (*shell.NAMES, "theme")]
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
