"""WSGI middleware around the dashboard that checks every request and sets the headers of every response.

It runs before Flask, so a refused request runs nothing else, and error pages have the headers too. It checks, in this
order: host name, size, method, origin, token.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from werkzeug.http import HTTP_STATUS_CODES
from werkzeug.wrappers import Request, Response

from dashboards.serving.access import Access
from dashboards.serving.login import Token, WrongTries, login_page, redirect_page
from dashboards.serving.response_headers import cache_control, with_fixed
from dashboards.serving.url_prefix import enter

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

MAX_BODY_BYTES = 2 << 20  # a callback sends the state of its controls: some KB
CALLBACK = "_dash-update-component"
_FORM = "application/x-www-form-urlencoded"
_MAX_FORM_BYTES = 8 << 10


class Gate:
    """WSGI middleware: calls `app` for permitted requests and answers others with a refusal."""

    def __init__(self, app: WSGIApplication, access: Access, *, prefix: str, headers: dict[str, str]) -> None:
        self._app, self._access, self._prefix, self._fixed = app, access, prefix, headers
        self._token = None if access.token is None else Token(access.token)
        self._tries = WrongTries()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """One request."""
        environ["HTTP_HOST"] = environ.get(
            "HTTP_HOST", ""
        ).lower()  # names have no case, but Flask compares as it stands
        enter(environ, self._access.url_prefix)
        request = Request(environ)
        path = request.path.removeprefix(self._prefix)

        def start(status: str, given: list[tuple[str, str]], exc_info: Any = None) -> Any:
            cache = cache_control(path, environ.get("QUERY_STRING", ""), int(status[:3]))
            return start_response(status, with_fixed(given, self._fixed, cache), exc_info)

        refusal = self._refused(request, path) or self._asked_for_token(request)
        return (refusal or self._app)(environ, start)

    def _refused(self, request: Request, path: str) -> Response | None:
        """A refusal if the request is invalid whoever sends it; None if it is valid."""
        if _host_name(request) not in self._access.names:
            return _words(
                400,
                f"{request.headers.get('Host', '')!r:.200} is not a host name of this dashboard; see --trusted-host.",
            )
        if (request.content_length or 0) > MAX_BODY_BYTES:
            return _words(413, f"requests are limited to {MAX_BODY_BYTES >> 20} MiB.")
        if request.method == "POST" and path != CALLBACK and not self._may_be_login(request):
            return _words(405, "this address does not accept POST.", Allow="GET, HEAD")
        if request.method not in ("GET", "HEAD", "POST"):
            return _words(405, "only GET, HEAD and POST are allowed.", Allow="GET, HEAD, POST")
        if _from_elsewhere(request):
            return _words(403, "the request comes from a page of another origin.")
        return None

    def _asked_for_token(self, request: Request) -> Response | None:
        """None if the visitor is signed in, else the login page; after a correct token, the redirect page."""
        if self._token is None:
            return None
        header = request.authorization
        bearer = header.token or "" if header and header.type == "bearer" else None
        offered = self._offered(request) if bearer is None else bearer
        if offered is None:
            signed = self._token.signed(request.cookies.get(self._cookie_name(request), ""))
            return None if signed else _login(request, "This dashboard needs its token.")
        if not self._token.opens(offered):
            return self._wrong_token(request)
        return self._welcome(request, self._token) if bearer is None else None

    def _wrong_token(self, request: Request) -> Response:
        """The login page; after many wrong tokens from this address, for a while, a refusal that says how long."""
        address = request.remote_addr or ""
        if wait_s := self._tries.wait_s(address):
            return _words(
                429, f"too many wrong tokens; try again in {wait_s:.0f} s.", Retry_After=str(math.ceil(wait_s))
            )
        self._tries.add(address)
        return _login(request, "This is not the token of this dashboard.")

    def _offered(self, request: Request) -> str | None:
        """The token in the form or in the address; None if there is none."""
        if self._may_be_login(request):
            return request.form.get("token", "")
        return request.args.get("token")

    def _may_be_login(self, request: Request) -> bool:
        form = request.mimetype == _FORM and (request.content_length or 0) <= _MAX_FORM_BYTES
        return self._token is not None and request.method == "POST" and form

    def _welcome(self, request: Request, token: Token) -> Response:
        """Sets the cookie and redirects to the same address without the token."""
        pairs = parse_qsl(request.query_string.decode("latin-1"), keep_blank_values=True)
        query = urlencode([(name, value) for name, value in pairs if name != "token"])
        path = quote(request.path.lstrip("/\\"))  # `//name` would lead to another server
        path = f"{request.script_root}/{path}"
        answer = Response(redirect_page(f"{path}?{query}" if query else path), mimetype="text/html")
        below = request.script_root or "/"  # not to who else is served at this origin
        answer.set_cookie(self._cookie_name(request), token.cookie, path=below, httponly=True, samesite="Strict")
        return answer

    def _cookie_name(self, request: Request) -> str:
        """Name of the cookie. Ports share cookies, so two dashboards on one machine need two names."""
        return f"permafrost-{request.environ.get('SERVER_PORT', '')}"


def _host_name(request: Request) -> str:
    """The name of the `Host` header without its port."""
    host = request.headers.get("Host", "")
    name, colon, port = host.rpartition(":")
    return name if colon and port.isascii() and port.isdigit() else host


def _from_elsewhere(request: Request) -> bool:
    """Whether a page of another origin sent the request.

    Browsers say so in `Sec-Fetch-Site` (on loopback and HTTPS) and, at every POST, in `Origin`; other clients say
    neither. Who follows a link to us is welcome (https://www.w3.org/TR/fetch-metadata/). Pages on other ports of this
    machine are of the same *site*, but of another origin.
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


def _login(request: Request, message: str) -> Response:
    """401: a page with a form for browsers, plain text for other clients."""
    if "text/html" in request.headers.get("Accept", ""):
        answer = Response(login_page(message), status=401, mimetype="text/html")
    else:
        place = f"{request.script_root}/?token=TOKEN"
        answer = _words(401, f"{message} Send 'Authorization: Bearer TOKEN', or open {place} in a browser.")
    answer.headers["WWW-Authenticate"] = 'Bearer realm="permafrost"'
    return answer


def _words(status: int, message: str, **headers: str) -> Response:
    text = f"{status} {HTTP_STATUS_CODES[status]}: {message}\n"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(text, status=status, mimetype="text/plain", headers=named)
