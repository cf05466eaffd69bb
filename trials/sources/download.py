"""Files and listings of a git repository over HTTP; a file has the size and digest that its listing says.

`huggingface_hub` and `datasets` fetch from the hub alone; treebanks of Universal Dependencies are on GitHub.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from trials.errors import DataError
from trials.outside.plain_files import progress
from trials.sources.cache import explain_write_errors

if TYPE_CHECKING:
    from huggingface_hub.utils import httpx

_TIMEOUT_S = 30.0  # without a byte
LARGEST_FILE = 4 << 30  # bytes; ten times the largest treebank
_TOKEN_HOST = "api.github.com"  # noqa: S105 - the only host that GITHUB_TOKEN is sent to
_ACCESS = "access refused. Remove or renew GITHUB_TOKEN if it is set; else a proxy may block the address"
_LIMIT = "too many requests from this address. Try again in an hour, or set GITHUB_TOKEN"
_STATUS = {401: _ACCESS, 403: _ACCESS, 404: "no such file. It may have been moved or deleted", 429: _LIMIT}


class Remote(NamedTuple):
    """A file in a git repository, as its listing describes it.

    Attributes:
        size: Bytes.
        sha1: Its git blob digest: SHA-1 over `blob SIZE`, a zero byte and the content.
    """

    url: str
    size: int
    sha1: str


def blob_digest(path: Path) -> str:
    """The digest by which git identifies a file's content."""
    start = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: start).hexdigest()


def download(remote: Remote, path: Path) -> None:
    """Download a file to `path` and verify it; if a verified file already exists, no request is made.

    Raises:
        DataError: no connection, or one that was cut; a refusal of the server, other content than listed (it is
            discarded), or a disk that cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    with explain_write_errors(path):
        if path.is_file() and blob_digest(path) == remote.sha1:
            return
        with _client(remote.url) as http, http.stream("GET", remote.url) as answer, part.open("wb") as file:
            _refuse(answer, remote.url)
            for chunk in answer.iter_bytes():
                file.write(chunk)
                progress.get()("download", path.name, file.tell(), remote.size)
                if file.tell() > remote.size:  # more than listed: the digest is wrong in any case
                    break
        digest = blob_digest(part)
        if digest != remote.sha1:
            part.unlink()
            raise DataError(
                f"{safe_address(remote.url)}: its digest is {digest}, expected {remote.sha1}; the download was "
                "discarded. Try again; if it fails again, a proxy or mirror changes the file."
            )
        part.replace(path)


def get_json(url: str) -> Any:
    """The JSON document at an address, e.g. a listing of files.

    Raises:
        FileNotFoundError: the server has no such document.
        DataError: no connection, another refusal, or not JSON.
    """
    token = os.environ.get("GITHUB_TOKEN")
    with _client(url) as http:
        is_sent = token and urlsplit(url).hostname == _TOKEN_HOST
        answer = http.get(url, headers={"Authorization": f"Bearer {token}"} if is_sent else {})
    if answer.status_code == HTTPStatus.NOT_FOUND:
        raise FileNotFoundError
    _refuse(answer, url)
    try:
        return answer.json()
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{safe_address(url)}: the answer is not JSON. It may come from a proxy or a log-in page."
        ) from error


@contextmanager
def _client(url: str) -> Iterator[httpx.Client]:
    """An HTTP client for one address, with the errors of its requests translated.

    It follows redirects, and requests uncompressed bytes, so that sizes can be compared.

    Raises:
        DataError: no address of the web, an invalid proxy in the environment (the message does not repeat it, as it
            may hold a password), or no connection.
    """
    from huggingface_hub.utils import httpx

    try:
        parts = urlsplit(url)  # it may come from a listing
        host = (parts.hostname or "").encode("idna")
        fits = parts.scheme in ("http", "https") and bool(host) and (parts.port or 1) > 0 and url.isprintable()
    except ValueError:  # UnicodeError is one
        fits = False
    if not fits:
        raise DataError(f"{safe_address(url)}: not a web address. Check PERMAFROST_UD_URL.")
    headers = {"Accept-Encoding": "identity", "User-Agent": "permafrost"}
    try:
        client = httpx.Client(follow_redirects=True, timeout=_TIMEOUT_S, headers=headers)
    except (ValueError, ImportError, httpx.InvalidURL) as error:
        raise DataError(
            "a proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used. Write http://host:port, or unset it."
        ) from error
    try:
        with client:
            yield client
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DataError(
            f"{safe_address(url)}: cannot be fetched ({error or type(error).__name__}). Check the network and the proxy"
            " settings, and run the same command again; or work with what is on this machine (--offline)."
        ) from error


def _refuse(answer: httpx.Response, url: str) -> None:
    """Raise DataError with a reason and advice unless the server answered with success."""
    if answer.is_success:
        return
    why = _STATUS.get(answer.status_code, "unexpected answer. Try again later")
    if answer.headers.get("X-RateLimit-Remaining") == "0":
        why = _LIMIT
    raise DataError(f"{safe_address(url)}: {why} (HTTP {answer.status_code}).")


def safe_address(url: str) -> str:
    """An address for a message, without a password or a query, which may hold a token."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
