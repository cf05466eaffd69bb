"""Hardens a Dash app for serving: no developer tools, no tracebacks for visitors, and the gate around it.

Environment variables have no effect: `DASH_DEBUG`, `DASH_UI`, `DASH_HOT_RELOAD`, `DASH_MCP_ENABLED`, `FLASK_DEBUG`
and the like are overridden.
"""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable

import dash
from dash.exceptions import DependencyException
from dash.fingerprint import check_fingerprint
from flask import Flask, Response, abort, request
from pydantic import ValidationError
from werkzeug.exceptions import BadRequest, HTTPException

from dashboards.serving.access import Access
from dashboards.serving.callback_requests import refuse_forged
from dashboards.serving.gate import CALLBACK, MAX_BODY_BYTES, Gate
from dashboards.serving.response_headers import COMPONENTS, fixed_headers
from dashboards.serving.url_prefix import prefixed
from trials.escaping import escaped

log = logging.getLogger(__name__)

_SMALLEST_BYTES = 4096  # below, compressing costs more than it saves
_COMPRESSED = ("text/html", "text/css", "text/javascript", "application/javascript", "application/json")


def secured(app: dash.Dash, access: Access, *, debug: bool = False) -> Flask:
    """The app behind the gate. Layout and callbacks must be complete: the policy lists the inline scripts.

    Args:
        debug: Whether tracebacks of failing callbacks are logged. Visitors never see them.
    """
    prefix: str = app.config.routes_pathname_prefix
    _switch_tools_off(app)
    flask: Flask = app.server
    flask.config.update(MAX_CONTENT_LENGTH=MAX_BODY_BYTES, TRUSTED_HOSTS=_trusted(access))
    _plain_error_pages(flask, debug=debug)
    flask.before_request(refuse_forged(app, prefix + CALLBACK))
    # On loopback too: many look through a tunnel, and 3.8 MB are 1.0 MB.
    flask.after_request(_compressing((prefix + COMPONENTS, prefix + "assets/")))
    flask.after_request(prefixed)  # runs before what was registered above
    headers = fixed_headers(app.csp_hashes(), on_loopback=access.on_loopback)
    flask.wsgi_app = Gate(flask.wsgi_app, access, prefix=prefix, headers=headers)  # type: ignore[method-assign]
    return flask


def _trusted(access: Access) -> list[str] | None:
    """Host names for Flask's own check behind the gate. Werkzeug 3.1 truncates IPv6 addresses at their first colon and
    would refuse all of them, so for these the gate alone decides.
    """
    return None if ":" in access.host else sorted(name for name in access.names if ":" not in name)


def _switch_tools_off(app: dash.Dash) -> None:
    """Disable the debugger, developer tools, hot reload and the endpoint for language models (MCP)."""
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
            flask.view_functions[endpoint] = lambda: abort(404)


def _plain_error_pages(flask: Flask, *, debug: bool) -> None:
    def plain(error: HTTPException) -> tuple[str, int, dict[str, str]]:
        status = error.code or 500
        return f"{status} {error.name}\n", status, {"Content-Type": "text/plain; charset=utf-8"}

    def failed(error: Exception) -> tuple[str, int, dict[str, str]]:
        where = f"{request.method} {request.path}"
        log.error("%s", escaped(f"{where}: {type(error).__name__}: {error}"), exc_info=debug)
        text = "500 Internal Server Error: see the dashboard's log.\n"
        return text, 500, {"Content-Type": "text/plain; charset=utf-8"}

    def unknown(error: DependencyException) -> tuple[str, int, dict[str, str]]:
        return "404 Not Found\n", 404, {"Content-Type": "text/plain; charset=utf-8"}

    flask.register_error_handler(HTTPException, plain)
    flask.register_error_handler(ValidationError, lambda _: plain(BadRequest()))  # values of a callback request
    flask.register_error_handler(Exception, failed)
    flask.register_error_handler(DependencyException, unknown)  # a bundle that no component has registered


def _compressing(bundles: tuple[str, ...]) -> Callable[[Response], Response]:
    """A handler that compresses responses: files below `bundles` well and once, everything else fast.

    Half a megabyte of figures takes 5 ms at level 1; level 6 takes 38 ms and saves a tenth more.
    """
    bundled: dict[str, bytes] = {}

    def compressed(response: Response) -> Response:
        response.vary.add("Accept-Encoding")
        bundle = request.path.startswith(bundles)
        fit = response.status_code == 200 and response.mimetype in _COMPRESSED
        if response.direct_passthrough and fit:
            fit = bundle  # of files that are sent as they are, only these are small enough to be read
            response.direct_passthrough = not fit
        if not fit or not request.accept_encodings.quality("gzip") or len(response.get_data()) < _SMALLEST_BYTES:
            return response
        if bundle:
            name = check_fingerprint(request.path)[0]  # the fingerprint is the visitor's word, the name is registered
            if name not in bundled:
                bundled[name] = gzip.compress(response.get_data(), 6)
            response.set_data(bundled[name])
        else:
            response.set_data(gzip.compress(response.get_data(), 1))
        response.headers["Content-Encoding"] = "gzip"
        return response

    return compressed
