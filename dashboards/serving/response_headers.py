"""Response headers: what a page may load, and what may be cached.

The policy allows neither `unsafe-inline` nor `unsafe-eval` for scripts; styles need `unsafe-inline`, as Plotly, Mantine
and AG Grid insert them into the page.
"""

from __future__ import annotations

from collections.abc import Iterable

from dash.fingerprint import check_fingerprint
from werkzeug.datastructures import Headers

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
