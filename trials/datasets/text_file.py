"""Text files of corpora: their lines, how much memory they may take, what is wrong with lines, and their splits.

Lines are UTF-8, plain or gzipped, in Unicode normal form.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

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
            f"{path}:{line}: not UTF-8 text ({error.reason} at byte {error.start} of the file). Save it as UTF-8."
        ) from error


# Collect what is wrong with the lines of corpus files, so that one message tells all of it.

FromT = TypeVar("FromT")
IntoT = TypeVar("IntoT")

MOST = 20  # lines that a message tells; the others are counted


class BrokenLinesError(DataError):
    """Lines that break their file's format.

    Attributes:
        lines: What is wrong with the first ones, a message each.
    """

    def __init__(self, lines: Sequence[str], n: int) -> None:
        self.lines, self.n = tuple(lines), n
        rest = n - len(lines)
        super().__init__(*lines, *([f"... and {rest:,} more broken line{'s' * (rest != 1)}."] if rest else []))


class BrokenLines:
    """The errors so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.n = 0

    def add(self, error: DataError) -> None:
        """Add an error, or all of those that another collection has raised."""
        lines, n = (error.lines, error.n) if isinstance(error, BrokenLinesError) else ((str(error),), 1)
        self.lines += lines[: MOST - len(self.lines)]
        self.n += n

    def raise_if_any(self) -> None:
        """Raise BrokenLinesError with all errors."""
        if self.n:
            raise BrokenLinesError(self.lines, self.n)


def convert_all(convert: Callable[[FromT], IntoT], items: Iterable[FromT]) -> list[IntoT]:
    """What a function makes of each. Raises BrokenLinesError with the errors of all of them."""
    converted, broken = list[IntoT](), BrokenLines()
    for item in items:
        try:
            converted.append(convert(item))
        except DataError as error:
            broken.add(error)
    broken.raise_if_any()
    return converted


# The splits of a corpus by the names of its files.

# The words that mark a split in a file's name, by rank: a later word counts only where no file has an earlier one.
SPLIT_WORDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "train": (("train",), ("training", "trn")),
    "dev": (
        ("dev", "valid", "val"),
        ("validation", "devel", "development", "validate", "testa"),
        ("eval", "evaluation"),
    ),
    "test": (("test",), ("testb", "testing", "tst")),
}
_SHARD = re.compile(r"(.*?)[-_.](\d+)[-_]of[-_](\d+)(.*)")  # train-00000-of-00002.parquet
_JOINED = re.compile(
    r"(train|dev|test|valid|val)(set|data|file|split|\d+)"
)  # trainset, test2; where nothing else counts
_double = re.compile(r"(train|dev|devel|val|valid|test){2,}")  # traindev, trainval
_ALL = {word: split for split, ranks in SPLIT_WORDS.items() for rank in ranks for word in rank}


def words_of(name: str) -> list[str]:
    """The words of a file's name: `en_ewt-ud-train.conllu` has en, ewt, ud, train, conllu."""
    return "".join(c.lower() if c.isalnum() else " " for c in name).split()


def split_of_suffix(name: str) -> str | None:
    """The split that the end of a file's name says, where it has no suffix of a format: `eng.testa`, `train`."""
    return _ALL.get(name.rpartition(".")[2].lower())


def split_named(word: str) -> str | None:
    """The split that a word means: `Validation` is dev."""
    return _ALL.get(word.strip().lower())


def looks_like_split(name: str) -> bool:
    """Whether any word of a name marks a split."""
    return any(word in _ALL or _double.fullmatch(word) for word in words_of(name))


def by_split(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Those of some files whose name has the word of a split, by split; with the words of two (`train_dev`) they are of
    train where nothing else is, and of none otherwise.
    """
    double = [path for path in files if len({_ALL[word] for word in words_of(path.name) if word in _ALL}) > 1]
    if double:
        others = by_split([path for path in files if path not in double])
        return others if others["train"] else others | {"train": [p for p in double if "train" in words_of(p.name)]}
    mismatched = [path for path in files if "mismatched" in words_of(path.name)]
    rest = [path for path in files if path not in mismatched]
    splits: dict[str, list[Path]] = {}
    for split, ranks in SPLIT_WORDS.items():
        marked = ([p for p in rest if any(word in words_of(p.name) for word in rank)] for rank in ranks)
        joined = [p for p in rest if any(_joined(word) in ranks[0] for word in words_of(p.name))]
        splits[split] = next(filter(None, marked), joined)
    splits["mismatched"] = [
        p for p in mismatched if any(w in words_of(p.name) for rank in SPLIT_WORDS["dev"] for w in rank)
    ]
    return splits


def _joined(word: str) -> str:
    match = _JOINED.fullmatch(word)
    return match[1] if match else ""


def is_whole(files: Sequence[Path]) -> bool:
    """Whether files are all shards of one: `train-00000-of-00002.parquet` and `train-00001-of-00002.parquet`."""
    shards = [match.groups() for path in files if (match := _SHARD.fullmatch(path.name))]
    if len(shards) != len(files) or not files:
        return False
    numbers = sorted(int(number) for _, number, _, _ in shards)
    return len({(a, n, b) for a, _, n, b in shards}) == 1 and numbers == list(range(int(shards[0][2])))
