"""Text files of corpora: their lines, and how much memory they may take.

Lines are UTF-8, plain or gzipped, in Unicode normal form.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from trials.errors import DataError
from trials.escaping import compose
from trials.outside.plain_files import MOST_CONTENT, read_bytes, stamp_of

# Reading takes up to this many bytes for each byte of text: its lines, and words and tags as objects (measured: 4 to
# 10).
BYTES_PER_BYTE = 10
_MEMORY = Path("/proc/meminfo")
_PIECE, _LEAST_BOMB = 1 << 20, 64 << 20  # bytes: unpacked at once; before the ratio counts
_MOST_RATIO = 100  # largest ratio that gzip may expand by; text has 3 to 20
_SHEET, _TABLE, _TAR = "Save the sheet as CSV (UTF-8).", "Write it as CSV or Parquet.", "Unpack it: `tar xf FILE`."
# What to do with files that hold no text, by suffix; and the suffixes that first bytes are of.
BINARY = {
    ".xlsx": _SHEET, ".xls": _SHEET, ".ods": _SHEET, ".zip": f"Unpack it: `unzip FILE`; or is it a workbook? {_SHEET}",
    ".bz2": "Unpack it: `bunzip2 FILE`.", ".xz": "Unpack it: `unxz FILE`.", ".zst": "Unpack it: `unzstd FILE`.",
    ".7z": "Unpack it.", ".rar": "Unpack it.", ".tar": _TAR, ".tgz": _TAR, ".pdf": "Write its text into a table.",
    ".spacy": "Write its words and tags a line: `token.text` and `token.ent_iob_`-`token.ent_type_` of spaCy's DocBin.",
    ".arrow": "Write it as Parquet: `datasets.Dataset.from_file(FILE).to_parquet(...)`.", ".feather": _TABLE,
    ".pkl": _TABLE, ".pickle": _TABLE, ".sqlite": "Export the table as CSV.", ".db": "Export the table as CSV.",
}  # fmt: skip
_FIRST_BYTES = {
    b"\x1f\x8b": ".gz", b"PK\3\4": ".zip", b"\xd0\xcf\x11\xe0": ".xls", b"BZh": ".bz2", b"\xfd7zXZ": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst", b"7z\xbc\xaf": ".7z", b"PAR1": ".parquet", b"%PDF": ".pdf", b"SQLite": ".sqlite",
}  # fmt: skip
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
    """Raise DataError if `n_bytes` of a file's content do not fit in memory."""
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
    text = compose(_decode(path, _unpack(path)).removeprefix("\ufeff"))
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:  # nothing follows the end of the last line
        lines.pop()
    return lines


def _unpack(path: Path) -> bytes:
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
        pieces, n_bytes, packed = list[bytes](), 0, io.BytesIO(data)
        with gzip.open(packed) as file:
            while piece := file.read(_PIECE):
                pieces.append(piece)
                check_fits(path, n_bytes := n_bytes + len(piece))
                if n_bytes > _LEAST_BOMB + _MOST_RATIO * packed.tell():
                    raise DataError(f"{path}: it unpacks to over {_MOST_RATIO} times its size, as no text does.")
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: not a complete gzip file ({str(error).rstrip('.')}). Download or compress it again."
        ) from error
    return b"".join(pieces)


def refuse_binary(path: Path) -> None:
    """Raise DataError where a file's suffix says that it holds no text."""
    if (suffix := path.suffix.lower()) in BINARY:
        raise DataError(f"{path}: {suffix} files are not read. {BINARY[suffix].replace('FILE', path.name)}")


def refuse_other_content(path: Path, first: bytes) -> None:
    """Raise DataError where the first bytes of a file show that it is not what its name says."""
    if first.startswith(b"\0\0\0\0"):
        raise DataError(f"{path}: has zero bytes alone, as a synchronised folder may have. Download it again.")
    for start, suffix in _FIRST_BYTES.items():
        if first.startswith(start) and path.suffix.lower() != suffix:
            way_out = f"Name it so: `mv {path.name} {path.name}{suffix}`. {BINARY.get(suffix, '')}"
            raise DataError(
                f"{path}: this is a {suffix} file, whatever its name says. "
                f"{way_out.replace('FILE', path.name + suffix).strip()}"
            )


def _decode(path: Path, data: bytes) -> str:
    refuse_other_content(path, data)
    try:
        text = data.decode("utf-8")
        if _is_wide(data):
            raise UnicodeDecodeError("utf-8", data, at := data.index(0), at + 1, "many zero bytes, the first one")
        return text
    except UnicodeDecodeError as error:
        before = data[: error.start].replace(b"\r\n", b"\n")
        line = 1 + before.count(b"\n") + before.count(b"\r")
        raise DataError(
            f"{path}:{line}: not UTF-8 text ({error.reason} at byte {error.start} of the file). Save it as UTF-8"
            f"{_how_to_convert(path, data)}."
        ) from error


def _how_to_convert(path: Path, data: bytes) -> str:
    """The command that writes a file as UTF-8, where one encoding alone fits what it holds."""
    encoding = encoding_of(data)
    if encoding is None:
        return ", from the encoding that it was saved in (`iconv -f ENCODING -t utf-8`)"
    return f": its letters fit {encoding}, `iconv -f {encoding} -t utf-8 {path.name} > OTHER/{path.name}`"


def encoding_of(data: bytes) -> str | None:
    """The encoding, other than UTF-8, in which these bytes are words of one script; None if none or several fit.

    East Asian encodings are known by the characters that are common in their languages, others by words that are of one
    script and have capitals only where words have them.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if _is_wide(data):
        return "utf-16le" if data[1::2].count(0) > data[::2].count(0) else "utf-16be"
    for encoding, is_common, least in _EAST_ASIAN:
        with suppress(UnicodeDecodeError):
            others = [c for c in data.decode(encoding) if not c.isascii()]
            if sum(map(is_common, others)) >= least * len(others):
                return encoding
    for encoding, letters in _ALPHABETS:
        with suppress(UnicodeDecodeError):
            parts = [part for part in _part.findall(data.decode(encoding)) if not part.isascii()]
            words = [part for part in parts if re.fullmatch(f"[{letters}]+", part.lower()) and _has_usual_case(part)]
            is_clear = len(words) + sum(part in _PUNCTUATION for part in parts) >= _CLEAR * len(parts)
            if is_clear and (2 * sum(word.lower() == word for word in words) > len(words) or encoding == _WESTERN):
                return encoding
    return None


def _is_wide(data: bytes) -> bool:
    """Whether bytes are likely of UTF-16."""
    return 100 * data.count(0) > len(data)


def _has_usual_case(word: str) -> bool:
    return word[1:] == word[1:].lower() or word.isupper()


def _is_led_by(encoding: str, first: int, last: int) -> Callable[[str], bool]:
    """Whether the first byte of a character is one of punctuation or of the most common characters."""

    def is_common(char: str) -> bool:
        code = char.encode(encoding, "ignore")
        return len(code) == 2 and (0xA1 <= code[0] <= 0xA3 or first <= code[0] <= last)

    return is_common


def _is_between(first: str, last: str) -> Callable[[str], bool]:
    return lambda char: first <= char <= last


_CLEAR = 0.95  # share of the words that must fit
_WESTERN = "windows-1252"
_PUNCTUATION = "«»„“”’‘–—…№§°©®™€£·•¿¡"  # noqa: RUF001
_part = re.compile(r"[^\W\d_]+|[^\w\s]")
# Each with the characters that are common in its language, and the least share of them.
_EAST_ASIAN = (
    ("cp932", _is_between("\u3041", "\u30fc"), 0.25), ("euc-jp", _is_between("\u3041", "\u30fc"), 0.25),
    ("cp949", _is_led_by("euc-kr", 0xB0, 0xC8), _CLEAR), ("gb18030", _is_led_by("gb2312", 0xB0, 0xD7), 0.9),
    ("big5", _is_led_by("big5", 0xA4, 0xC6), 0.9),
)  # fmt: skip
_ALPHABETS = (
    ("windows-1255", "\u05d0-\u05ea"),
    ("windows-1251", "а-яёіїєґў"), ("windows-1251", "а-яђјљњћџѓќѕ"),  # noqa: RUF001
    ("rk1048", "а-яёіәғқңөұүһ"), ("koi8-r", "а-яё"), ("cp866", "а-яё"),  # noqa: RUF001
    *((_WESTERN, f"a-z{letters}") for letters in ("äöüß", "àâçéèêëîïôùûüœæÿ", "áéíóúüñ", "ãõáâàéêíóôúç", "àèéìòù",
                                                  "åäöæøé", "éëïöü")),
    ("windows-1253", "\u0390-\u03ce"), ("windows-1256", "\u0621-\u06d2"), ("cp874", "\u0e01-\u0e4d"),
)  # fmt: skip
