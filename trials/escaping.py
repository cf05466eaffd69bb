"""What comes from outside, made safe: texts that are shown, files that are read, messages of the validator."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import stat
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

# Text from outside: names of folders and files, labels, words, messages of libraries and services.
#
# Every surface passes it through one of these functions, so that no character of it acts: in a terminal or log
# (`escaped`), an error (`quoted`, `beginning`), LaTeX (`latex`, `latex_comment`), HTML (`html`), Markdown (`markdown`),
# a spreadsheet (`csv_cell`), a link (`web_address`). Names that a sweep declares obey a pattern; those of folders and
# hubs are shown escaped rather than refused, as existing stores hold them.

MAX_QUOTED = 40  # characters of a file's content in a message

_JOINERS = "\u200c\u200d"  # letters of Persian and Hindi, and emoji, need them
_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
)  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|])")
_FORMULA = tuple("=+-@\t\r\n")  # https://owasp.org/www-community/attacks/CSV_Injection
_ACTS = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")  # those below are always escaped in JSON
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def composed(text: str) -> str:
    """The text in Unicode's NFC, in which letters that look alike are alike; a Mac's keyboard may write another."""
    return unicodedata.normalize("NFC", text)


def escaped(text: str) -> str:
    r"""One line of visible characters: all others, such as `\n`, ESC or an override of direction, as in a literal."""
    return text if text.isprintable() else "".join(c if _is_visible(c) else repr(c)[1:-1] for c in text)


def _is_visible(character: str) -> bool:
    return character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs"


def quoted(value: object) -> str:
    """A value from a file, for a message: what `beginning` leaves of it, text in quotation marks."""
    if not isinstance(value, str):
        return beginning(repr(value))
    text = beginning(value)
    return f'"{text}"' if "'" in text else f"'{text}'"


def beginning(text: str) -> str:
    """The first `MAX_QUOTED` characters of a text from a file, escaped."""
    text = escaped(text[: MAX_QUOTED + 1])
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


def html(text: str) -> str:
    """Text for HTML, in an element or a quoted attribute."""
    return escape(escaped(text))


def latex(text: str) -> str:
    """Text for LaTeX."""
    return escaped(text).translate(_TEX)


def latex_comment(text: str) -> str:
    """A line of LaTeX that is a comment."""
    return f"% {escaped(text)}\n"


def markdown(text: str) -> str:
    """Text for Markdown, in a paragraph or a table."""
    return _MARKDOWN.sub(r"\\\1", escaped(text))


def csv_cell(value: object) -> object:
    """A cell of a CSV file: text that a spreadsheet would run as a formula gets a leading apostrophe.

    Numbers remain numbers, as text too. Lines stay lines; all other control characters are shown escaped.
    """
    if not isinstance(value, str):
        return value
    text = "\n".join(map(escaped, value.split("\n")))
    return f"'{text}" if value.startswith(_FORMULA) and not _NUMBER.fullmatch(value) else text


def json_text(value: object) -> str:
    """A value as JSON in which letters of any script stay letters, and what acts in a terminal is escaped."""
    return _ACTS.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def web_address(text: str) -> str | None:
    """The address of a link if it is one of the web; None for `javascript:` and everything else that is not."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.scheme in ("http", "https") and parts.netloc and text.isprintable() else None


# Files whose names come from outside: only plain ones of bounded size are read.
#
# A name may lead to a pipe, on which a reader waits for ever, to a device without an end, or into /proc, whose files
# say that they are empty and hold secrets of this process. Links are followed, as the caches of other programs consist
# of them. Every reader of a file that a user, a hub or another program names goes through this module.

MOST_TEXT = 16 << 20  # bytes of a file that declares or describes something
MOST_VOCABULARY = 256 << 20  # of a tokenizer's file; the largest have 40 MB
MOST_CONTENT = 128 << 30  # of a corpus or of weights, whose readers have tighter bounds
_SETTLED_NS = 2_000_000_000  # a change within a file system's clock tick, or that of a server, shows no new time


class NotPlainError(OSError):
    """A name that leads to no plain file, or to one that is too large."""

    def __init__(self, path: Path | str, rule: str, code: int = errno.EINVAL) -> None:
        super().__init__(code, rule, str(path))


class Stamp(NamedTuple):
    """What changes when a file's content does: a write, a replacement, a restored time of modification."""

    device: int
    inode: int
    n_bytes: int
    modified_ns: int
    changed_ns: int

    def is_settled(self, since_ns: int) -> bool:
        """Whether any change from this time on, in nanoseconds, gives another stamp."""
        return max(self.modified_ns, self.changed_ns) + _SETTLED_NS < since_ns


def stamp_of(path: Path | str, most: int = MOST_CONTENT) -> Stamp:
    """The stamp of a plain file; it is not opened.

    Raises:
        NotPlainError: it is a folder, pipe, device or socket, or has more than `most` bytes.
        OSError: there is none.
    """
    return _stamp(path, Path(path).stat(), most)


@contextmanager
def opened(path: Path | str, most: int = MOST_TEXT) -> Iterator[io.BufferedReader]:
    """A plain file, open for reading. Raises as `stamp_of` does."""
    stamp_of(path, most)  # before it is opened, as opening a device may already do something
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not _stamp(path, os.fstat(file.fileno()), most).n_bytes and file.read(1):
            if not os.fstat(file.fileno()).st_size:  # else it has just been written
                raise NotPlainError(path, "not a regular file")  # of /proc
            file.seek(0)
        yield file


def read_bytes(path: Path | str, most: int = MOST_TEXT) -> bytes:
    """The content of a plain file. Raises as `stamp_of` does."""
    with opened(path, most) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        content = file.read(n_bytes + 1)
    if len(content) != n_bytes:
        raise _changing(path)
    return content


def read_text(path: Path | str, most: int = MOST_TEXT, *, errors: str = "strict") -> str:
    """The UTF-8 text of a plain file. Raises as `stamp_of` does, and UnicodeDecodeError."""
    return read_bytes(path, most).decode("utf-8", errors)


def read_json(path: Path | str, most: int = MOST_TEXT) -> Any:
    """The JSON in a plain file. Raises as `stamp_of` does, ValueError if it is not JSON, RecursionError."""
    return json.loads(read_bytes(path, most))


_digests: dict[str, tuple[Stamp, bytes]] = {}  # of this process


def digest_of(path: Path | str, most: int = MOST_CONTENT) -> bytes:
    """SHA-256 of a plain file; one whose stamp has not changed since this process read it is not read again.

    Raises:
        NotPlainError: it changes while it is read.
        OSError: as `stamp_of`.
    """
    stamp, began_ns = stamp_of(path, most), time.time_ns()
    before, digest = _digests.get(str(path), (None, b""))
    if before == stamp:
        return digest
    with opened(path, most) as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        if stamp_of(path, most) != stamp or _stamp(path, os.fstat(file.fileno()), most) != stamp:
            raise _changing(path)
    if stamp.is_settled(began_ns):
        _digests[str(path)] = stamp, digest
    return digest


def _stamp(path: Path | str, status: os.stat_result, most: int) -> Stamp:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise NotPlainError(path, "not a regular file")
    if status.st_size > most:
        raise NotPlainError(path, f"larger than the {most:,} bytes that it may have", errno.EFBIG)
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _changing(path: Path | str) -> NotPlainError:
    return NotPlainError(path, "changing while it is read", errno.EBUSY)


# The rules of pydantic in our words, so that no message of a file or option is in a library's.

_WHOLE, _RULE_NUMBER, _TEXT = "must be a whole number", "must be a number", "must be text; write it in quotes"
_LIST, _MAPPING = "must be a list", "must be a mapping of keys to values"

# By pydantic's type of error; the places are filled from the error's context.
RULES: Mapping[str, str] = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": _MAPPING,
    "extra_forbidden": "is not a known key. Remove it",
    "finite_number": "must be a finite number",
    "float_parsing": _RULE_NUMBER,
    "float_type": _RULE_NUMBER,
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "must be a whole number of at most 64 bits",
    "int_type": _WHOLE,
    "invalid_key": "has a key that is no word",
    "json_invalid": "is not JSON ({error})",
    "json_type": "is not JSON",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": _LIST,
    "literal_error": "must be {expected}",
    "mapping_type": _MAPPING,
    "missing": "is missing. Add it",
    "model_attributes_type": _MAPPING,
    "model_type": _MAPPING,
    "none_required": "must be empty",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": _TEXT,
    "string_unicode": "must be Unicode text",
    "too_long": "must have at most {max_length} values, not {actual_length}",
    "too_short": "must have at least {min_length} values, not {actual_length}",
    "tuple_type": _LIST,
}
_OURS = ("value_error", "assertion_error")  # raised by our own validators, with our own words
_ONE = re.compile(r"(?<= 1 )(character|value)s")


def rule_of(error: Mapping[str, Any]) -> str:
    """What a value must be, as part of a sentence, for an entry of `pydantic.ValidationError.errors()`."""
    context = {k: f"{v:g}" if isinstance(v, float) else v for k, v in error.get("ctx", {}).items()}
    if error["type"] in _OURS:
        return str(context["error"])
    rule = RULES.get(error["type"], "is not valid here")
    return _ONE.sub(r"\1", rule.format(**context) if "{" in rule else rule)


def together(rules: Iterable[str]) -> str:
    """The rules of which a value must keep one: `must be a number or 'packed'`."""
    first, *others = dict.fromkeys(rule.removesuffix("; write it in quotes") for rule in rules)
    return " or ".join([first, *(rule.removeprefix("must be ") for rule in others)])
