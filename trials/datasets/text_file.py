"""Text files of corpora: their lines, and how much memory they may take.

Lines are UTF-8, plain or gzipped, in Unicode normal form.
"""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from pathlib import Path

from trials.errors import DataError
from trials.escaping import composed
from trials.outside.plain_files import MOST_CONTENT, read_bytes, stamp_of

# Reading takes up to this many bytes for each byte of text: its lines, and words and tags as objects (measured: 4 to
# 10).
BYTES_PER_BYTE = 10
_MEMORY = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def free_bytes() -> int:
    """Memory that this process may still use: of the machine, or of its control group if that is less."""
    free = 1 << 62
    with suppress(OSError, ValueError, IndexError):
        lines = dict(line.split(":") for line in _MEMORY.read_text(encoding="ascii").splitlines())
        free = 1024 * int(lines["MemAvailable"].split()[0])
    with suppress(OSError, ValueError):  # `max` is no number
        limit, used = (int((_GROUP / f"memory.{name}").read_text(encoding="ascii")) for name in ("max", "current"))
        free = min(free, max(limit - used, 0))
    return free


def check_fits(path: Path, n_bytes: int) -> None:
    """Raise DataError if so many bytes of a file's content do not fit in memory."""
    if n_bytes > (most := free_bytes() // BYTES_PER_BYTE):
        raise DataError(
            f"{path}: it has {n_bytes:,} bytes, more than the {most:,} that fit in this machine's free memory "
            f"({BYTES_PER_BYTE} bytes each). Split it, or use a part of it (`first`)."
        )


def read_lines(path: Path) -> list[str]:
    r"""The lines of a file, plain or `.gz`, without their ends; a byte-order mark is no part of the first one.

    A line ends only at ``\n``, ``\r\n`` or ``\r``: other separators (U+2028, form feeds) occur inside words. The
    text is normalised to Unicode's NFC, so that composed and decomposed letters spell the same word.

    Raises:
        DataError: the file cannot be read or unpacked, does not fit in memory, or is not UTF-8 text; names the line
            where there is one.
    """
    text = composed(_decoded(path, _unpacked(path)).removeprefix("\ufeff"))
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:  # nothing follows the end of the last line
        lines.pop()
    return lines


def _unpacked(path: Path) -> bytes:
    try:
        check_fits(path, stamp_of(path).n_bytes)
        data = read_bytes(path, MOST_CONTENT)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    if path.suffix.lower() != ".gz":
        return data
    try:
        if not data:  # `gzip` accepts an empty file
            raise EOFError("the file is empty")
        unpacked = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: not a complete gzip file ({str(error).rstrip('.')}). Download or compress it again."
        ) from error
    check_fits(path, len(unpacked))
    return unpacked


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].replace(b"\r\n", b"\n")
        line = 1 + before.count(b"\n") + before.count(b"\r")
        raise DataError(
            f"{path}:{line}: not UTF-8 text ({error.reason} at byte {error.start} of the file). Save it as UTF-8; "
            "`iconv -f latin1 -t utf-8` does so from Latin-1."
        ) from error
