"""Who may open a dashboard: the address it listens on, the host names it answers to, and its token.

The token comes from an environment variable or a file. Every user of a machine can read command lines (`ps`), so no
option takes the token itself.

Response headers say what a page may load, and what may be cached. The policy allows neither `unsafe-inline` nor
`unsafe-eval` for scripts; styles need `unsafe-inline`, as Plotly, Mantine and AG Grid insert them into the page.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from dash.fingerprint import check_fingerprint
from flask import Response, request
from werkzeug.datastructures import Headers

from orchestrator.config.secret_file import read_secret_file
from trials.errors import ConfigError, RefusedError

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
        response.set_data(pattern.sub(lambda match: f"{match[1]}{root}/", response.get_data(as_text=True)))
    return response


TOKEN_VARIABLE = "PERMAFROST_DASHBOARD_TOKEN"  # noqa: S105, the name of a variable
SHORTEST_TOKEN = 16  # characters; of hexadecimal digits these are 64 bits
LONGEST_TOKEN = 1024
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8050

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_TOKEN = re.compile(rf"[!-~]{{{SHORTEST_TOKEN},{LONGEST_TOKEN}}}")
_HOW = (
    f"Set a token in the environment variable {TOKEN_VARIABLE} or in a file (--token-file), for example one from "
    "python -c 'import secrets; print(secrets.token_urlsafe(32))'; or listen on 127.0.0.1 and connect through "
    "ssh -C -L 8050:127.0.0.1:8050 THIS_MACHINE."
)


@dataclass(frozen=True, kw_only=True)
class Access:
    """Where a dashboard listens, and to whom it answers.

    Attributes:
        host: The address or name it is bound to; `localhost` is 127.0.0.1.
        port: 0 takes any free port.
        token: What a visitor must present; None needs a loopback address.
        trusted_hosts: Further names in `Host` headers, besides the loopback names and `host`.
        url_prefix: The path below which visitors find it, as `/user/ana/proxy/8050`; empty for what a proxy on this
            machine says, see `enter`.

    Raises:
        ConfigError: an invalid port, name, token or prefix; all problems are reported together.
        RefusedError: an address that other machines can reach, without a token.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str | None = field(default=None, repr=False)
    trusted_hosts: tuple[str, ...] = ()
    url_prefix: str = ""

    def __post_init__(self) -> None:
        problems = [
            f"trusted host: {name!r} is neither a name nor an address."
            for name in self.trusted_hosts
            if not _name(name)
        ]
        if not _name(self.host):
            problems.insert(0, f"host: {self.host!r} is neither a name nor an address.")
        if not 0 <= self.port <= 65535:
            problems.append(f"port: {self.port} is not a port; use 1 to 65535, or 0 for a free one.")
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            problems.append(
                f"token: it has {len(self.token)} characters; {SHORTEST_TOKEN} to {LONGEST_TOKEN} visible ASCII "
                "characters are needed, and no space."
            )
        if cleaned(self.url_prefix) is None:
            problems.append(f"url prefix: {self.url_prefix!r} is not one; {SYNTAX}.")
        if problems:
            raise ConfigError(problems)
        if self.token is None and not self.on_loopback:
            raise RefusedError(f"host: {self.host!r} can be reached from other machines, but no token is set. {_HOW}")

    @property
    def address(self) -> str:
        """The address that the socket is bound to."""
        return DEFAULT_HOST if self.host == "localhost" else self.host

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can connect. Names are not resolved, except `localhost` (RFC 6761)."""
        address = _address(self.address)
        return address is not None and address.is_loopback

    @property
    def names(self) -> frozenset[str]:
        """The `Host` headers it answers to, in lower case, without a port.

        Any other name is refused: a foreign site could let its name resolve to 127.0.0.1 and would then share the
        dashboard's origin (DNS rebinding).
        """
        names = {"localhost", "127.0.0.1", self.host, *self.trusted_hosts}
        if ":" in self.host:
            names.add("::1")
        return frozenset(f"[{name}]" if ":" in name else name.lower() for name in names)


def read_access(
    *,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    token_file: Path | None = None,
    trusted_hosts: tuple[str, ...] = (),
    url_prefix: str = "",
    environ: Mapping[str, str] = os.environ,
) -> Access:
    """The access from options and environment; a token file takes precedence over the variable.

    Raises:
        ConfigError: as `Access`, or the token file cannot be read.
        RefusedError: as `Access`, or other users of this machine can read the token file.
    """
    token = environ.get(TOKEN_VARIABLE) or None
    if token_file is not None:
        token = read_secret_file(token_file, name="token file", most_bytes=LONGEST_TOKEN + 3)
    return Access(host=host, port=port, token=token, trusted_hosts=trusted_hosts, url_prefix=url_prefix)


def _name(text: str) -> bool:
    return bool(_NAME.fullmatch(text.lower())) or _address(text) is not None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


# The token of a visitor: entered once, then replaced by a cookie that is useless elsewhere.
#
# The cookie is an HMAC of the token under a secret of this process, so it does not reveal the token, and a restart
# signs everybody out.

TRIES, WINDOW_S = 10, 60.0  # wrong tokens per address and seconds that are answered with the form
ADDRESSES = 1024  # remembered

_STYLE = (
    ":root{color-scheme:light dark;background:Canvas;color:CanvasText}a{color:inherit}"
    "body{font:16px/1.5 sans-serif;max-width:32rem;margin:10vh auto;padding:0 1rem}"
    "input,button{font:inherit;padding:.4rem}input{width:100%;box-sizing:border-box;margin:.3rem 0 1rem}"
)


class Token:
    """Checks the dashboard's token and the cookies made from it."""

    def __init__(self, token: str) -> None:
        self._secret = secrets.token_bytes(32)
        self._digest = self._hmac(token)
        self.cookie = hmac.new(self._secret, b"cookie:" + token.encode(), "sha256").hexdigest()

    def opens(self, given: str) -> bool:
        """Whether this is the token, compared in constant time."""
        return hmac.compare_digest(self._hmac(given), self._digest)

    def signed(self, cookie: str) -> bool:
        """Whether a cookie is valid."""
        return hmac.compare_digest(cookie.encode(), self.cookie.encode())

    def _hmac(self, text: str) -> bytes:
        return hmac.digest(self._secret, text.encode(errors="surrogatepass"), "sha256")


class WrongTries:
    """Counts recent wrong tokens by address. No thread sleeps, as visitors share few threads.

    The right token is not held up by wrong ones: behind a proxy all visitors have one address, so anybody could lock
    out all others. A token is long enough (`access.SHORTEST_TOKEN`) to withstand guesses at any rate.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, address: str) -> None:
        """Record a wrong token; if there are too many addresses, the one without attempts for longest is dropped."""
        with self._lock:
            self._times.setdefault(address, deque(maxlen=TRIES)).append(self._clock())
            self._times.move_to_end(address)
            if len(self._times) > ADDRESSES:
                self._times.popitem(last=False)

    def wait_s(self, address: str) -> float:
        """Seconds until the address may try again; 0 if it may now."""
        with self._lock:
            times = self._times.get(address)
            return max(0.0, times[0] + WINDOW_S - self._clock()) if times and len(times) == TRIES else 0.0

    def __len__(self) -> int:
        return len(self._times)


def login_page(message: str) -> str:
    """The login page. It posts to its own address, so that deep links keep working.

    After a link on another site, a browser withholds `SameSite=Strict` cookies; the link on this page sends them.
    """
    form = (
        '<form method="post"><label for="token">Token</label><input id="token" name="token" type="password" '
        'autocomplete="current-password" required autofocus><button>Open</button></form>'
    )
    # Under `no-referrer`, our policy elsewhere, a browser says `Origin: null` when it posts a form.
    referrer = '<meta name="referrer" content="same-origin">'
    again = '<p>Already signed in? <a href="">Open the page</a></p>'
    return _page(f"<p>{escape(message)}</p>{form}{again}", referrer)


def redirect_page(path: str) -> str:
    """A page that opens `path` by itself.

    An HTTP redirect after a link on another site would still count as coming from there, and the browser would withhold
    the `SameSite=Strict` cookie that it was just given.
    """
    link = escape(path)
    return _page(f'<p><a href="{link}">Continue</a></p>', f'<meta http-equiv="refresh" content="0; url={link}">')


def _page(body: str, head: str = "") -> str:
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">{head}<title>Permafrost</title>'
        '<link rel="icon" href="data:,">'  # or the browser asks the origin for one, which need not be ours
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main><h1>Permafrost</h1>{body}</main></body></html>"
    )
