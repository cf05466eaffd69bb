"""Text from outside: names of folders and files, labels, words, messages of libraries and services.

Every surface passes it through one of these functions, so that no character of it acts: in a terminal or log
(`escape_line`), an error (`errors.quote`), LaTeX (`latex`, `latex_comment`), HTML (`html`), Markdown (`markdown`),
a spreadsheet (`csv_cell`), a link (`web_address`). Names that a sweep declares obey a pattern; those of folders and
hubs are shown escaped rather than refused, as existing stores hold them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from html import escape
from urllib.parse import urlsplit

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


def compose(text: str) -> str:
    """The text in Unicode's NFC, in which letters that look alike are alike; a Mac's keyboard may write another."""
    return unicodedata.normalize("NFC", text)


def escape_line(text: str) -> str:
    r"""One line of visible characters: all others, such as `\n`, ESC or an override of direction, as in a literal."""
    return text if text.isprintable() else "".join(c if _is_visible(c) else repr(c)[1:-1] for c in text)


def _is_visible(character: str) -> bool:
    return character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs"


def html(text: str) -> str:
    """Text for HTML, in an element or a quoted attribute."""
    return escape(escape_line(text))


def latex(text: str) -> str:
    """Text for LaTeX."""
    return escape_line(text).translate(_TEX)


def latex_comment(text: str) -> str:
    """A line of LaTeX that is a comment."""
    return f"% {escape_line(text)}\n"


def markdown(text: str) -> str:
    """Text for Markdown, in a paragraph or a table."""
    return _MARKDOWN.sub(r"\\\1", escape_line(text))


def csv_cell(value: object) -> object:
    """A cell of a CSV file: text that a spreadsheet would run as a formula gets a leading apostrophe.

    Numbers remain numbers, as text too. Lines stay lines; all other control characters are shown escaped.
    """
    if not isinstance(value, str):
        return value
    text = "\n".join(map(escape_line, value.split("\n")))
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
