"""What stands between visitors and a Dash app: who is let in, and what they get of it.

The gate runs before Flask, so a refused request runs nothing else: it checks host name, method, origin and token. The
token is entered once, in the address or in a form; from then on a cookie stands for it until the server ends. Behind it
there are no developer tools and no tracebacks; answers are compressed, and may be below a path.
"""

from __future__ import annotations

import gzip
import ipaddress
import logging
import re
import secrets
import sys
import traceback
from collections.abc import Callable, Iterable
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

import dash
import flask
from dash.exceptions import DependencyException
from dash.fingerprint import check_fingerprint
from pydantic import ValidationError
from werkzeug.datastructures import Headers
from werkzeug.exceptions import BadRequest, HTTPException
from werkzeug.http import HTTP_STATUS_CODES
from werkzeug.wrappers import Request, Response

from dashboards.serving.access import Access, clean_prefix
from orchestrator.config.console import debugging
from trials.escaping import escape_line

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

CALLBACK, COMPONENTS = "_dash-update-component", "_dash-component-suites/"
FOR_EVER = "private, max-age=31536000, immutable"
_FORM = "application/x-www-form-urlencoded"
_STYLE = (
    ":root{color-scheme:light dark;background:Canvas;color:CanvasText}"
    "body{font:16px/1.5 sans-serif;max-width:32rem;margin:10vh auto;padding:0 1rem}"
    "input,button{font:inherit;padding:.4rem}input{width:100%;box-sizing:border-box;margin:.3rem 0 1rem}"
)
_LOGIN = (  # it posts to its own address, so that deep links keep working
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Permafrost</title>'
    '<link rel="icon" href="data:,"><meta name="viewport" content="width=device-width, initial-scale=1">'
    f"<style>{_STYLE}</style></head><body><main><h1>Permafrost</h1><p>{{}}</p>"
    '<form method="post"><label for="token">Token</label><input id="token" name="token" type="password" '
    'autocomplete="current-password" required autofocus><button>Open</button></form></main></body></html>'
)
_SMALLEST_BYTES = 4096  # below, compressing costs more than it saves
_COMPRESSED = ("text/html", "text/css", "text/javascript", "application/javascript", "application/json")
# Values of addresses at the root: attributes of the first page, properties of components. No text of a store can look
# like one, as its quotation marks are escaped in both.
_SLASH = r"(?:/|\\u002f)"  # as JSON is escaped for a script
_ADDRESSES = {
    "text/html": re.compile(rf"""(\b(?:src|href|content)="|"requests_pathname_prefix": ?"){_SLASH}(?!{_SLASH})"""),
    "application/json": re.compile(rf"""("(?:href|data-export)": ?"){_SLASH}(?!{_SLASH})"""),
}


def secured(app: dash.Dash, access: Access) -> flask.Flask:
    """The app behind the gate. Layout and callbacks must be complete: the policy lists the inline scripts."""
    app.enable_dev_tools(
        debug=False,
        dev_tools_ui=False,  # whatever the environment says
        dev_tools_props_check=False,
        dev_tools_serve_dev_bundles=False,
        dev_tools_hot_reload=False,
        dev_tools_silence_routes_logging=True,
        dev_tools_disable_version_check=True,
        dev_tools_prune_errors=False,
        dev_tools_validate_callbacks=False,
    )
    app.logger.handlers.clear()  # Dash logs to stdout, which is for data
    server: flask.Flask = app.server
    server.debug = server.testing = False
    server.config["PROPAGATE_EXCEPTIONS"] = False
    _plain_error_pages(server)
    server.after_request(_compressing((f"/{COMPONENTS}", "/assets/")))  # a tunnel, too, is glad of 1.0 MB, not 3.8
    server.after_request(_prefixed)  # runs before what was registered above
    server.wsgi_app = Gate(server.wsgi_app, access, app.csp_hashes())  # type: ignore[method-assign]
    return server


def _plain_error_pages(server: flask.Flask) -> None:
    def plain(error: HTTPException) -> tuple[str, int, dict[str, str]]:
        status = error.code or 500
        return f"{status} {error.name}\n", status, {"Content-Type": "text/plain; charset=utf-8"}

    def failed(error: Exception) -> tuple[str, int, dict[str, str]]:
        if _is_forged(error):
            return plain(BadRequest())
        where = f"{flask.request.method} {flask.request.path}"
        log.error("%s", escape_line(f"{where}: {type(error).__name__}: {error}"), exc_info=debugging.is_on)
        text = "500 Internal Server Error: see the dashboard's log.\n"
        return text, 500, {"Content-Type": "text/plain; charset=utf-8"}

    def unknown(error: DependencyException) -> tuple[str, int, dict[str, str]]:
        return "404 Not Found\n", 404, {"Content-Type": "text/plain; charset=utf-8"}

    server.register_error_handler(HTTPException, plain)
    server.register_error_handler(ValidationError, lambda _: plain(BadRequest()))  # values of a callback request
    server.register_error_handler(Exception, failed)
    server.register_error_handler(DependencyException, unknown)  # a bundle that no component has registered


def _is_forged(error: Exception) -> bool:
    """Whether a callback's request is at fault: Dash made no sense of it before, or after, a callback of ours ran."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    packages = {str(frame.f_globals.get("__name__")).partition(".")[0] for frame in frames}
    return flask.request.path == f"/{CALLBACK}" and packages <= {"dash", "flask", "werkzeug", *sys.stdlib_module_names}


def _prefixed(response: flask.Response) -> flask.Response:
    """A page's addresses below the prefix of the request. Files are left as they are."""
    pattern = _ADDRESSES.get(response.mimetype or "")
    if flask.request.script_root and pattern and "Content-Disposition" not in response.headers:
        root = flask.request.script_root
        response.set_data(pattern.sub(lambda match: f"{match[1]}{root}/", response.get_data(as_text=True)))
    return response


def _compressing(bundles: tuple[str, ...]) -> Callable[[flask.Response], flask.Response]:
    """A handler that compresses responses: files below `bundles` well and once, everything else fast.

    Half a megabyte of figures takes 5 ms at level 1; level 6 takes 38 ms and saves a tenth more.
    """
    bundled: dict[str, bytes] = {}

    def compressed(response: flask.Response) -> flask.Response:
        response.vary.add("Accept-Encoding")
        bundle = flask.request.path.startswith(bundles)
        fit = response.status_code == 200 and response.mimetype in _COMPRESSED
        if response.direct_passthrough and fit:
            fit = bundle  # of files that are sent as they are, only these are small enough to be read
            response.direct_passthrough = not fit
        if not fit or not flask.request.accept_encodings.quality("gzip") or len(response.get_data()) < _SMALLEST_BYTES:
            return response
        if bundle:
            name = check_fingerprint(flask.request.path)[0]  # the fingerprint is the visitor's word
            if name not in bundled:
                bundled[name] = gzip.compress(response.get_data(), 6)
            response.set_data(bundled[name])
        else:
            response.set_data(gzip.compress(response.get_data(), 1))
        response.headers["Content-Encoding"] = "gzip"
        return response

    return compressed


class Gate:
    """WSGI middleware: calls `app` for permitted requests and answers others with a refusal.

    Args:
        script_hashes: Of the page's inline scripts (`'sha256-...'`), the only ones that may run. Styles need
            `unsafe-inline`, as Plotly, Mantine and AG Grid insert them into the page.
    """

    def __init__(self, app: WSGIApplication, access: Access, script_hashes: Iterable[str]) -> None:
        self._app, self._access = app, access
        self._cookie = secrets.token_urlsafe(32)
        policy = (
            "default-src 'none'; script-src {}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
            "font-src 'self' data:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
            "frame-ancestors 'none'"
        )
        self._headers = {
            "Content-Security-Policy": policy.format(" ".join(["'self'", *script_hashes])),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """One request."""
        environ["HTTP_HOST"] = environ.get("HTTP_HOST", "").lower()  # names have no case, but Flask compares as it is
        _enter_prefix(environ, self._access.url_prefix)
        request = Request(environ)
        path = request.path.removeprefix("/")

        def start(status: str, given: list[tuple[str, str]], exc_info: Any = None) -> Any:
            headers = Headers(given)
            for name, value in self._headers.items():
                headers[name] = value
            headers["Cache-Control"] = cache_control(path, environ.get("QUERY_STRING", ""), int(status[:3]))
            return start_response(status, headers.to_wsgi_list(), exc_info)

        refusal = self._refused(request, path) or self._asked_for_token(request)
        return (refusal or self._app)(environ, start)

    def _refused(self, request: Request, path: str) -> Response | None:
        """A refusal if the request is invalid whoever sends it; None if it is valid."""
        if _host_name(request) not in self._access.names:
            host = request.headers.get("Host", "")
            return _words(400, f"{host!r:.200} is not a host name of this dashboard; see --trusted-host.")
        if request.method not in ("GET", "HEAD") and not self._may_be_posted(request, path):
            return _words(405, "this address is only read.", Allow="GET, HEAD")
        if _from_elsewhere(request):
            return _words(403, "the request comes from a page of another origin.")
        return None

    def _may_be_posted(self, request: Request, path: str) -> bool:
        return request.method == "POST" and (path == CALLBACK or self._is_form(request))

    def _is_form(self, request: Request) -> bool:
        return self._access.token is not None and request.method == "POST" and request.mimetype == _FORM

    def _asked_for_token(self, request: Request) -> Response | None:
        """None if the visitor is signed in; else the login page or, given the right token, a redirect with a cookie."""
        if self._access.token is None:
            return None
        header = request.authorization
        if header is not None and header.type == "bearer":
            return None if _equal(header.token or "", self._access.token) else _login(request, "This is not its token.")
        offered = request.form.get("token", "") if self._is_form(request) else request.args.get("token")
        if offered is None:
            signed = _equal(request.cookies.get(_cookie_name(request), ""), self._cookie)
            return None if signed else _login(request, "This dashboard needs its token.")
        if not _equal(offered, self._access.token):
            return _login(request, "This is not the token of this dashboard.")
        pairs = parse_qsl(request.query_string.decode("latin-1"), keep_blank_values=True)
        query = urlencode([(name, value) for name, value in pairs if name != "token"])
        way = f"{request.script_root}/{quote(request.path.lstrip('/' + chr(92)))}"  # `//name` would be another server
        answer = Response(status=303, headers={"Location": f"{way}?{query}" if query else way})
        below = request.script_root or "/"  # not to who else is served at this origin
        answer.set_cookie(_cookie_name(request), self._cookie, path=below, httponly=True, samesite="Lax")
        return answer


def cache_control(path: str, query: str, status: int) -> str:
    """How long a response may be cached: files whose address changes with their content for ever, results never.

    Args:
        path: Without a leading slash.
        query: Of the address; Dash adds `m=<time of change>` to assets.
    """
    if status not in (200, 304):
        return "no-store"
    if path.startswith(COMPONENTS):
        return FOR_EVER if check_fingerprint(path)[1] else "private, no-cache"
    if path.startswith("assets/"):
        return FOR_EVER if query.startswith("m=") else "private, no-cache"
    if path == "_favicon.ico":  # browsers ask for it again at each new address of the page
        return FOR_EVER if query.startswith("v=") else "private, no-cache"
    return "no-store"


def _enter_prefix(environ: WSGIEnvironment, fixed: str) -> None:
    """Move the prefix of a request from its path to `SCRIPT_NAME`, in the form that addresses have.

    A proxy may keep it (`/p/depth` arrives as `/p/depth`) or strip it (as `/depth`). Where none is `fixed`, that of
    `X-Forwarded-Prefix` counts if the sender is on this machine, as jupyter-server-proxy is.
    """
    prefix = clean_prefix(fixed)
    if not prefix and _is_near(environ):
        prefix = clean_prefix(environ.get("HTTP_X_FORWARDED_PREFIX", ""))
    prefix = prefix or ""
    start, path = unquote_to_bytes(prefix).decode("latin-1"), environ.get("PATH_INFO", "")
    if prefix and (path == start or path.startswith(f"{start}/")):
        environ["PATH_INFO"] = path.removeprefix(start) or "/"
    environ["SCRIPT_NAME"] = prefix


def _is_near(environ: WSGIEnvironment) -> bool:
    try:
        return ipaddress.ip_address(environ.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def _host_name(request: Request) -> str:
    """The name of the `Host` header without its port."""
    host = request.headers.get("Host", "")
    name, colon, port = host.rpartition(":")
    return name if colon and port.isascii() and port.isdigit() else host


def _cookie_name(request: Request) -> str:
    """Name of the cookie. Ports share cookies, so two dashboards on one machine need two names."""
    return f"permafrost-{request.environ.get('SERVER_PORT', '')}"


def _from_elsewhere(request: Request) -> bool:
    """Whether a page of another origin sent the request.

    Browsers say so in `Sec-Fetch-Site` (on loopback and HTTPS) and, at every POST, in `Origin`; other clients say
    neither. Who follows a link to us is welcome (https://www.w3.org/TR/fetch-metadata/). Pages on other ports of this
    machine are of the same *site*, whose cookies they share, but of another origin.
    """
    site = request.headers.get("Sec-Fetch-Site", "none")
    followed_link = (
        request.method == "GET"
        and request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
    )
    if site not in ("same-origin", "none") and not followed_link:
        return True
    origin = request.headers.get("Origin")
    return origin is not None and origin.lower().partition("://")[2] != request.headers.get("Host", "")


def _equal(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode(errors="surrogatepass"), secret.encode())


def _login(request: Request, message: str) -> Response:
    """401: a page with a form for browsers, plain text for other clients."""
    if "text/html" in request.headers.get("Accept", ""):
        answer = Response(_LOGIN.replace("{}", escape(message)), status=401, mimetype="text/html")
    else:
        place = f"{request.script_root}/?token=TOKEN"
        answer = _words(401, f"{message} Send 'Authorization: Bearer TOKEN', or open {place} in a browser.")
    answer.headers["WWW-Authenticate"] = 'Bearer realm="permafrost"'
    return answer


def _words(status: int, message: str, **headers: str) -> Response:
    text = f"{status} {HTTP_STATUS_CODES[status]}: {message}\n"
    return Response(text, status=status, mimetype="text/plain", headers=headers)
