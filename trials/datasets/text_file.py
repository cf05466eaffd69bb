"""Lines of text files: UTF-8, plain or gzipped, in Unicode normal form."""

from __future__ import annotations

import gzip
import io
import re
import unicodedata
import zlib
from pathlib import Path

from trials.datasets.memory import check_fits, check_unpacked
from trials.errors import DataError
from trials.escaping import MOST_CONTENT, read_bytes, stamp_of

MOST_MARKS = 500  # combining marks in a row: sorting them takes quadratic time; no script has ten
TOO_MANY_MARKS = f"more than {MOST_MARKS} combining marks in a row are not text. Delete them."
_PIECE = 1 << 24


def read_lines(path: Path) -> list[str]:
    r"""The lines of a file, plain or `.gz`, without their ends; a byte-order mark is no part of the first one.

    A line ends only at ``\n``, ``\r\n`` or ``\r``: other separators (U+2028, form feeds) occur inside words. The
    text is normalised to Unicode's NFC, so that composed and decomposed letters spell the same word.

    Raises:
        DataError: the file cannot be read or unpacked, or is not UTF-8 text; names the line where there is one.
    """
    text = _decoded(path, _unpacked(path)).removeprefix("\ufeff")
    if (heap := heap_of_marks(text)) is not None:
        line = 1 + len(re.findall(r"\r\n|\r|\n", text[:heap]))
        raise DataError(f"{path}:{line}: {TOO_MANY_MARKS}")
    text = unicodedata.normalize("NFC", text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:  # nothing follows the end of the last line
        lines.pop()
    return lines


def normalised(text: str) -> str:
    """The text in NFC (https://unicode.org/reports/tr15/). Raises DataError where `heap_of_marks` finds one."""
    if heap_of_marks(text) is not None:
        raise DataError(TOO_MANY_MARKS)
    return unicodedata.normalize("NFC", text)


def heap_of_marks(text: str) -> int | None:
    """The index of a run of more combining marks than can be sorted in reasonable time; None if there is none."""
    if text.isascii():
        return None
    for at in range(0, len(text), MOST_MARKS):  # so many in a row do not pass between two of these
        start = end = at
        while end < len(text) and end - start <= MOST_MARKS and unicodedata.combining(text[end]):
            end += 1
        while end > at and start and end - start <= MOST_MARKS and unicodedata.combining(text[start - 1]):
            start -= 1
        if end - start > MOST_MARKS:
            return start
    return None


def _unpacked(path: Path) -> bytes:
    try:
        check_fits(path, stamp_of(path).n_bytes, what="it has")
        data = read_bytes(path, MOST_CONTENT)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    if path.suffix.lower() != ".gz":
        return data
    try:
        if not data:  # `gzip` accepts an empty file
            raise EOFError("the file is empty")
        return _gunzipped(path, data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: not a complete gzip file ({str(error).rstrip('.')}). Download or compress it again."
        ) from error


def _gunzipped(path: Path, data: bytes) -> bytes:
    pieces, size = [], 0
    with gzip.open(io.BytesIO(data)) as file:
        while piece := file.read(_PIECE):
            pieces.append(piece)
            size += len(piece)
            check_unpacked(path, len(data), size)
    return b"".join(pieces)


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].replace(b"\r\n", b"\n")
        line = 1 + before.count(b"\n") + before.count(b"\r")
        raise DataError(
            f"{path}:{line}: not UTF-8 text ({error.reason} at byte {error.start} of the file). Save it as UTF-8."
        ) from error
