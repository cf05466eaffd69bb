"""The dashboard below a path, where jupyter-server-proxy or another reverse proxy gives it no origin of its own.

The app knows only its own addresses, which begin at the root. What it answers gets the prefix here, and what is asked
loses it here, whether the proxy keeps it (`/p/depth` arrives as `/p/depth`) or strips it (as `/depth`).
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from flask import Response, request

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


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
        response.set_data(pattern.sub(lambda match: f"{match[1]}{root}/", response.get_data(as_text=True)))
    return response
