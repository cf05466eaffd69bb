"""Bounds of what is read into memory: a small file may unpack to more than the machine has."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from trials.errors import DataError

# Reading takes up to this many bytes for each byte of text: its lines, and words and tags as objects (measured: 4 to
# 10).
BYTES_PER_BYTE = 10
# Text compresses to a tenth; columns that repeat, to a fiftieth. A thousandth is what zeros compress to.
MOST_TIMES = 200
FREE_TIMES = 16 << 20  # bytes that any file may unpack to, however small it is
_MEMORY = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def largest_text() -> int:
    """Bytes of text that can be read into the memory that is free now."""
    return free_bytes() // BYTES_PER_BYTE


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


def check_fits(path: Path, n_bytes: int, *, what: str) -> None:
    """Raise DataError if so many bytes of a file's content do not fit in memory; `what` says what has them."""
    if n_bytes > (most := largest_text()):
        raise DataError(
            f"{path}: {what} {n_bytes:,} bytes, more than the {most:,} that fit in this machine's free memory "
            f"({BYTES_PER_BYTE} bytes each). Split it, or use a part of it (`first`)."
        )


def check_unpacked(path: Path, packed: int, unpacked: int) -> None:
    """Raise DataError if a file of `packed` bytes unpacks to more than text does, or to more than fits in memory."""
    if unpacked > max(FREE_TIMES, MOST_TIMES * packed):
        raise DataError(
            f"{path}: its {packed:,} bytes unpack to {unpacked:,} or more, over {MOST_TIMES} times as many, which "
            "is no text. Get the file again, or uncompress it."
        )
    check_fits(path, unpacked, what="it unpacks to at least")
