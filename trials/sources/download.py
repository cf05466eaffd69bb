"""Download one file of a git repository over HTTP: whole, of the size and with the digest that the listing says.

`huggingface_hub` and `datasets` fetch from the hub alone; treebanks of Universal Dependencies are on GitHub. A file
whose connection was cut is fetched again, in the same run or in the next; files that are whole are not.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from trials.errors import DataError
from trials.sources.cache import Progress, no_progress, writing

if TYPE_CHECKING:
    import ssl

    import httpx2

WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before the second, third, ... attempt
_TIMEOUT_S = 30.0
LARGEST_FILE = 4 << 30  # bytes; ten times the largest treebank
_TOKEN_HOST = "api.github.com"  # noqa: S105 - the only host that GITHUB_TOKEN is sent to


class Remote(NamedTuple):
    """A file in a git repository, as its listing describes it.

    Attributes:
        size: Bytes.
        sha1: Its git blob digest: SHA-1 over `blob SIZE`, a zero byte and the content.
    """

    url: str
    size: int
    sha1: str


class _Cut(Exception):  # noqa: N818
    """The connection was cut, or the server is overloaded: worth another attempt."""


def blob_digest(path: Path) -> str:
    """The digest by which git identifies a file's content."""
    start = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: start).hexdigest()


def download(remote: Remote, path: Path, *, progress: Progress = no_progress, waits: Sequence[float] = WAITS) -> None:
    """Download a file to `path` and verify it; if a verified file already exists, no request is made.

    Raises:
        DataError: no connection, a refusal of the server, still incomplete after all attempts, other content than
            listed (it is discarded), or a disk that cannot be written.
    """
    _check_url(remote.url)
    with writing(path):
        if path.is_file() and blob_digest(path) == remote.sha1:
            return
        part = path.with_name(f"{path.name}.part")
        _attempt(remote, part, progress, waits)
        digest = blob_digest(part)
        if digest != remote.sha1:
            part.unlink()
            raise DataError(
                f"{shown(remote.url)}: its digest is {digest}, expected {remote.sha1}; the download was discarded. "
                "Try again; if it fails again, a proxy or mirror changes the file."
            )
        part.replace(path)


def _attempt(remote: Remote, part: Path, progress: Progress, waits: Sequence[float]) -> None:
    with client() as http:
        for wait in (0.0, *waits):
            time.sleep(wait)
            try:
                return _stream(http, remote, part, progress)
            except _Cut as cut:
                reason = str(cut)
    raise DataError(
        f"{shown(remote.url)}: still incomplete after {len(waits) + 1} tries ({reason}). "
        "Run the same command again; it keeps the files that are whole."
    )


def _stream(http: httpx2.Client, remote: Remote, part: Path, progress: Progress) -> None:
    import httpx2

    have = 0
    try:
        with http.stream("GET", remote.url) as answer, part.open("wb") as file:
            if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise _Cut(f"the server answered {answer.status_code}")
            refuse(answer, remote.url)
            for chunk in answer.iter_bytes():
                file.write(chunk)
                have += len(chunk)
                progress(part.stem, have, remote.size)
                if have > remote.size:  # more than listed: the digest is wrong in any case
                    return
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise _no_connection(remote.url, error) from error
    except (httpx2.TransportError, httpx2.DecodingError, httpx2.TooManyRedirects, httpx2.InvalidURL) as error:
        raise _Cut(str(error) or type(error).__name__) from error
    if have < remote.size:
        raise _Cut("the connection was cut")


def _check_url(url: str) -> None:
    """Raise DataError unless an address, which may come from a listing, is one of the web."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        fits = parts.scheme in ("http", "https") and bool(host) and (parts.port or 1) > 0 and url.isprintable()
    except ValueError:  # UnicodeError is one
        fits = False
    if not fits:
        raise DataError(f"{shown(url)}: not a web address. Check PERMAFROST_UD_URL.")


def client() -> httpx2.Client:
    """An HTTP client that follows redirects and requests uncompressed bytes, so that sizes can be compared.

    Raises:
        DataError: an invalid proxy in the environment; the message does not repeat it, as it may hold a password.
    """
    import httpx2

    headers = {"Accept-Encoding": "identity", "User-Agent": "permafrost"}
    try:
        return httpx2.Client(verify=_certificates(), follow_redirects=True, timeout=_TIMEOUT_S, headers=headers)
    except (ValueError, ImportError, httpx2.InvalidURL) as error:
        raise DataError(
            "a proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used. Write http://host:port, or unset it."
        ) from error


@cache
def _certificates() -> ssl.SSLContext:
    """The authorities that are trusted, read once for all files and proxies: it takes longer than a small file."""
    import httpx2

    return httpx2.create_ssl_context()


def get_json(url: str) -> Any:
    """The JSON document at an address, e.g. a listing of files.

    Raises:
        FileNotFoundError: the server has no such document; the text is the server's.
        DataError: no connection, another refusal, or not JSON.
    """
    import httpx2

    _check_url(url)
    try:
        with client() as http:
            answer = http.get(url, headers=_login(url))
    except (httpx2.TransportError, httpx2.DecodingError, httpx2.TooManyRedirects, httpx2.InvalidURL) as error:
        raise _no_connection(url, error) from error
    if answer.status_code == HTTPStatus.NOT_FOUND:
        raise FileNotFoundError(_words(answer))
    refuse(answer, url)
    try:
        return answer.json()
    except (ValueError, RecursionError) as error:
        raise DataError(f"{shown(url)}: the answer is not JSON. It may come from a proxy or a log-in page.") from error


def _login(url: str) -> dict[str, str]:
    token = os.environ.get("GITHUB_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token and urlsplit(url).hostname == _TOKEN_HOST else {}


def _words(answer: httpx2.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return answer.reason_phrase


def refuse(answer: httpx2.Response, url: str) -> None:
    """Raise DataError with a reason and advice unless the server answered with success."""
    status = answer.status_code
    if answer.is_success:
        return
    limited = status == HTTPStatus.FORBIDDEN and answer.headers.get("X-RateLimit-Remaining") == "0"
    if status == HTTPStatus.TOO_MANY_REQUESTS or limited:
        why = f"too many requests from this address. Try again {_when(answer)}, or set GITHUB_TOKEN"
    elif status == HTTPStatus.NOT_FOUND:
        why = "no such file. It may have been moved or deleted"
    elif status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        why = "access refused. Remove or renew GITHUB_TOKEN if it is set; else a proxy may block the address"
    else:
        why = "unexpected answer. Try again later"
    raise DataError(f"{shown(url)}: {why} (HTTP {status}).")


def _when(answer: httpx2.Response) -> str:
    reset, wait = answer.headers.get("X-RateLimit-Reset", ""), answer.headers.get("Retry-After", "")
    if wait.isdigit():
        return f"in {wait} s"
    try:
        return f"after {datetime.fromtimestamp(int(reset), UTC):%H:%M} UTC"
    except (ValueError, OverflowError, OSError):  # not given, or not a valid time
        return "in some minutes"


def _no_connection(url: str, error: Exception) -> DataError:
    return DataError(
        f"{shown(url)}: cannot connect ({error or type(error).__name__}). Check the network and the proxy settings, "
        "or work with what is on this machine (--offline)."
    )


def shown(url: str) -> str:
    """An address for a message, without a password or a query, which may hold a token."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
