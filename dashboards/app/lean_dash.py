"""Dash without what its first answer would load for nothing."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from urllib.parse import parse_qsl, urlencode

import dash
from flask import Response, request

from dashboards.data.page_query import PageQuery
from dashboards.views.kit.theme import in_dark

INDEX = """<!DOCTYPE html>
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
_UNUSED_SCRIPT = re.compile(r'<script src="[^"]*/dash_table/[^"]*"></script>')


class LeanDash(dash.Dash):  # type: ignore[misc]  # has no types
    """The app; `front` says what its first page opens."""

    front: Callable[[], PageQuery] = PageQuery

    def index(self, *args: object, **kwargs: object) -> object:
        """The first answer of the server; where the first page is asked for without a sweep, the address of the sweep
        that it opens, relative, as a proxy may show the dashboard below a path.
        """
        if not kwargs.get("path") and not request.args.get("sweep"):
            front, asked = self.front(), dict(request.args)
            search = urlencode({**dict(parse_qsl(front.search().removeprefix("?"))), **asked, "sweep": front.sweep})
            if front.sweep:
                return Response(status=302, headers={"Location": f"./?{search}"})
        return super().index(*args, **kwargs)

    def interpolate_index(self, metas: str = "", scripts: str = "", **others: str) -> str:
        """The first answer of the server: without the scripts that its page does not run."""
        grid, plotly = _GRID_SCRIPT.search(scripts), _PLOTLY_SCRIPT.search(scripts)
        assert grid is not None
        assert plotly is not None
        in_light = html.escape(json.dumps({dark: light for light, dark in in_dark().items()}))
        metas = (
            f'{metas}<meta name="grid-script" content="{grid[1]}"><meta name="in-light" content="{in_light}">'
            f'<link rel="preload" as="script" id="plotly-script" href="{plotly[1]}">'
        )
        lean = _UNUSED_SCRIPT.sub("", scripts.replace(grid[0], "").replace(plotly[0], ""))
        return str(super().interpolate_index(metas=metas, scripts=lean, **others))
