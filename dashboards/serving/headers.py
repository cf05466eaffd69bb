"""Response headers: what a page may load, and what may be cached.

The policy allows neither `unsafe-inline` nor `unsafe-eval` for scripts. Styles need `unsafe-inline`, as Plotly, Mantine
and AG Grid insert them into the page.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from dash.fingerprint import check_fingerprint
from flask import Response, request
from werkzeug.datastructures import Headers

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


COMPONENTS = "_dash-component-suites/"
FOR_EVER = "private, max-age=31536000, immutable"

_SWITCHED_OFF = ("camera", "microphone", "geolocation", "payment", "usb", "serial", "midi", "display-capture")


def content_policy(script_hashes: Iterable[str]) -> str:
    """The Content-Security-Policy of a page whose inline scripts have these hashes (`'sha256-...'`)."""
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(["'self'", *script_hashes]),
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": "'self'",
        "manifest-src": "'self'",
        "object-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{rule} {sources}" for rule, sources in rules.items())


def fixed_headers(script_hashes: Iterable[str], *, on_loopback: bool) -> dict[str, str]:
    """The headers that all responses share.

    Args:
        on_loopback: Elsewhere, over plain HTTP, browsers ignore the opener policy and log an error.
    """
    headers = {
        "Content-Security-Policy": content_policy(script_hashes),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": ", ".join(f"{feature}=()" for feature in _SWITCHED_OFF),
    }
    if on_loopback:
        headers |= {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}
    return headers


def cache_control(path: str, query: str, status: int) -> str:
    """How long a response may be cached: files whose address changes with their content for ever, results never.

    Args:
        path: Below the prefix of the app, without a leading slash.
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


def with_fixed(given: list[tuple[str, str]], fixed: dict[str, str], cache: str) -> list[tuple[str, str]]:
    """The headers of a response, overridden by the fixed ones."""
    headers = Headers(given)
    for name, value in fixed.items():
        headers[name] = value
    headers["Cache-Control"] = cache
    return headers.to_wsgi_list()


# The dashboard below a path, where jupyter-server-proxy or another reverse proxy gives it no origin of its own.
#
# The app knows only its own addresses, which begin at the root. What it answers gets the prefix here, and what is asked
# loses it here, whether the proxy keeps it (`/p/depth` arrives as `/p/depth`) or strips it (as `/depth`).

SYNTAX = "a path like /user/ana/proxy/8050 is needed, of letters, digits, %XX and any of -._~@:+=, without . and .."
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))(?:[A-Za-z0-9._~@:+=-]|%[0-9A-Fa-f]{2})+)*", re.ASCII)
_LONGEST = 512
# Values of addresses at the root: attributes of the first page, properties of components. No text of a store can look
# like one, as its quotation marks are escaped in both.
_SLASH = r"(?:/|\\u002f)"  # as JSON is escaped for a script
_IN_HTML = re.compile(rf"""(\b(?:src|href|content)="|"requests_pathname_prefix": ?"){_SLASH}(?!{_SLASH})""")
_IN_JSON = re.compile(rf"""("(?:href|data-export)": ?"){_SLASH}(?!{_SLASH})""")


def cleaned(prefix: str) -> str | None:
    """A prefix without a slash at its end, empty for the root; None if it is not one."""
    prefix = prefix.removesuffix("/")
    return prefix if len(prefix) <= _LONGEST and _PREFIX.fullmatch(prefix) else None


def enter(environ: WSGIEnvironment, fixed: str) -> None:
    """Move the prefix of a request from its path to `SCRIPT_NAME`, in the form that addresses have.

    Args:
        environ: The request, changed in place.
        fixed: The prefix that was set; if empty, that of `X-Forwarded-Prefix` counts if the sender is on this machine.
            The header changes no more than the addresses in the answer to who sent it, which is not cached.
    """
    prefix = cleaned(fixed) or _forwarded(environ)
    start, path = unquote_to_bytes(prefix).decode("latin-1"), environ.get("PATH_INFO", "")
    if prefix and (path == start or path.startswith(f"{start}/")):
        environ["PATH_INFO"] = path.removeprefix(start) or "/"
    environ["SCRIPT_NAME"] = prefix


def _forwarded(environ: WSGIEnvironment) -> str:
    try:
        is_near = ipaddress.ip_address(environ.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        is_near = False
    return (cleaned(environ.get("HTTP_X_FORWARDED_PREFIX", "")) or "") if is_near else ""


def prefixed(response: Response) -> Response:
    """For Flask's `after_request`: a page's addresses below the prefix of the request. Files are left as they are."""
    patterns = {"text/html": _IN_HTML, "application/json": _IN_JSON}
    pattern = patterns.get(response.mimetype or "")
    if request.script_root and pattern and "Content-Disposition" not in response.headers:
        root = request.script_root
        response.set_data(pattern.sub(lambda found: f"{found[1]}{root}/", response.get_data(as_text=True)))
    return response
