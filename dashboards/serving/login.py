"""The token of a visitor: entered once, then replaced by a cookie that is useless elsewhere.

The cookie is an HMAC of the token under a secret of this process, so it does not reveal the token, and a restart signs
everybody out.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from html import escape

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
