"""A Dash app made fit to be served: nothing of Dash's own tools, no traceback for a visitor, the gate before it.

What the environment says does not matter here: `DASH_DEBUG`, `DASH_UI`, `DASH_HOT_RELOAD`, `DASH_MCP_ENABLED`,
`FLASK_DEBUG` and their like are overruled.
"""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable

import dash
from dash.exceptions import DependencyException
from dash.fingerprint import check_fingerprint
from flask import Flask, Response, abort, request
from werkzeug.exceptions import HTTPException

from dashboards.serving.access import Access
from dashboards.serving.gate import MAX_BODY_BYTES, Gate
from dashboards.serving.headers import COMPONENTS, fixed_headers

log = logging.getLogger(__name__)

_SMALLEST_BYTES = 4096  # below, compressing costs more than it saves
_COMPRESSED = ("text/html", "text/css", "text/javascript", "application/javascript", "application/json")


def secured(app: dash.Dash, access: Access, *, debug: bool = False) -> Flask:
    """The app behind the gate. Its layout and all its callbacks must be there: the policy lists its inline scripts.

    Args:
        app: On Flask.
        access: Whom it answers.
        debug: Whether the traceback of a failing callback is logged. A visitor never sees one.
    """
    prefix: str = app.config.routes_pathname_prefix
    _switch_tools_off(app)
    flask: Flask = app.server
    flask.config.update(MAX_CONTENT_LENGTH=MAX_BODY_BYTES, TRUSTED_HOSTS=_trusted(access))
    _answer_errors_in_words(flask, debug=debug)
    if not access.on_loopback:
        # On loopback it would only cost time (4.8 MB of Plotly: 0.2 s); `ssh -C` compresses a tunnel.
        flask.after_request(_compressing(prefix + COMPONENTS))
    headers = fixed_headers(app.csp_hashes(), on_loopback=access.on_loopback)
    flask.wsgi_app = Gate(flask.wsgi_app, access, prefix=prefix, headers=headers)  # type: ignore[method-assign]
    return flask


def _trusted(access: Access) -> list[str] | None:
    """Flask's own look at the host, behind the gate's. Werkzeug 3.1 cuts IPv6 names of its list at their first colon
    and would refuse all; there the gate stands alone.
    """
    return None if ":" in access.host else sorted(name for name in access.names if ":" not in name)


def _switch_tools_off(app: dash.Dash) -> None:
    """No debugger, developer tools, hot reload, nor the endpoint for language models (MCP)."""
    app.enable_dev_tools(
        debug=False,
        dev_tools_ui=False,
        dev_tools_props_check=False,
        dev_tools_serve_dev_bundles=False,
        dev_tools_hot_reload=False,
        dev_tools_silence_routes_logging=True,
        dev_tools_disable_version_check=True,
        dev_tools_prune_errors=False,
        dev_tools_validate_callbacks=False,
    )
    app.config.show_undo_redo = False
    app.logger.handlers.clear()  # Dash logs to stdout, which is for data
    flask: Flask = app.server
    flask.debug = flask.testing = False
    flask.config["PROPAGATE_EXCEPTIONS"] = False
    for endpoint, view in flask.view_functions.items():
        if view.__module__.startswith("dash.mcp"):
            flask.view_functions[endpoint] = _no_such_page


def _no_such_page() -> Response:
    abort(404)


def _answer_errors_in_words(flask: Flask, *, debug: bool) -> None:
    def told(error: HTTPException) -> tuple[str, int, dict[str, str]]:
        status = error.code or 500
        return f"{status} {error.name}\n", status, {"Content-Type": "text/plain; charset=utf-8"}

    def failed(error: Exception) -> tuple[str, int, dict[str, str]]:
        log.error("%s %s: %s: %s", request.method, request.path, type(error).__name__, error, exc_info=debug)
        words = "500 Internal Server Error: the reason is in the log of the dashboard.\n"
        return words, 500, {"Content-Type": "text/plain; charset=utf-8"}

    def unknown(error: DependencyException) -> tuple[str, int, dict[str, str]]:
        return "404 Not Found\n", 404, {"Content-Type": "text/plain; charset=utf-8"}

    flask.register_error_handler(HTTPException, told)
    flask.register_error_handler(Exception, failed)
    flask.register_error_handler(DependencyException, unknown)  # a bundle that no component has registered


def _compressing(bundles: str) -> Callable[[Response], Response]:
    """What compresses answers for other machines: bundles well and once, all else fast.

    Half a megabyte of figure takes 5 ms at level 1 and 38 ms at level 6, which saves a tenth more.
    """
    kept: dict[str, bytes] = {}

    def compressed(response: Response) -> Response:
        response.vary.add("Accept-Encoding")
        fit = response.status_code == 200 and response.mimetype in _COMPRESSED and not response.direct_passthrough
        if not fit or not request.accept_encodings.quality("gzip") or len(response.get_data()) < _SMALLEST_BYTES:
            return response
        if request.path.startswith(bundles):
            name = check_fingerprint(request.path)[0]  # the fingerprint is the visitor's word, the name is registered
            if name not in kept:
                kept[name] = gzip.compress(response.get_data(), 6)
            response.set_data(kept[name])
        else:
            response.set_data(gzip.compress(response.get_data(), 1))
        response.headers["Content-Encoding"] = "gzip"
        return response

    return compressed
