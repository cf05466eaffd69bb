"""Text files as the readers take them: UTF-8, plain or gzipped, one spelling a word, and lines that can be named."""

from __future__ import annotations

import gzip
import unicodedata
import zlib
from pathlib import Path

from trials.errors import DataError


def read_lines(path: Path) -> list[str]:
    r"""The lines of a file, plain or `.gz`, without their ends; a byte-order mark is no part of the first one.

    A line ends at ``\n``, ``\r\n`` or ``\r`` and nowhere else: other separators (U+2028, form feeds) occur inside
    words. The text is in Unicode's NFC, so that a composed and a decomposed letter spell the same word.

    Raises:
        DataError: the file cannot be read or unpacked, or is not UTF-8; names the line where there is one.
    """
    text = normalised(_decoded(path, _unpacked(path)).removeprefix("\ufeff"))
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:  # what follows the last line's end is no line
        lines.pop()
    return lines


def normalised(text: str) -> str:
    """The text in NFC (https://unicode.org/reports/tr15/)."""
    return unicodedata.normalize("NFC", text)


def _unpacked(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    if path.suffix.lower() != ".gz":
        return data
    try:
        if not data:  # to `gzip` nothing at all is an archive of nothing
            raise EOFError("the file is empty")
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file ({str(error).rstrip('.')}). Fetch or pack it again.") from error


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].replace(b"\r\n", b"\n")
        line = 1 + before.count(b"\n") + before.count(b"\r")
        raise DataError(
            f"{path}:{line}: not UTF-8 text ({error.reason} at byte {error.start} of the file). Save it as UTF-8."
        ) from error
