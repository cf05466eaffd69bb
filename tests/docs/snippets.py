"""The blocks of code in the documents that users read, and the commands in them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGES = CHECKOUT / "docs" / "pages"
DOCUMENTS = (CHECKOUT / "README.md", CHECKOUT / "docker" / "README.md", *sorted(PAGES.rglob("*.md")))
_EXTRAS = ("published", "store_care", "trackers")
needs_extras = pytest.mark.skipif(
    not all((CHECKOUT / "orchestrator" / "extras" / name).is_dir() for name in _EXTRAS),
    reason="the documents describe every extra, and one was deleted",
)
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: Its document, relative to the checkout.
        language: The word after the fence; empty for commands.
        title: The file that it is to be written to, or empty.
        text: Its content.
    """

    page: str
    language: str
    title: str
    text: str


def blocks(document: Path) -> list[Block]:
    """The blocks of a document, in order."""
    found = []
    for header, text in _BLOCK.findall(document.read_text(encoding="utf-8")):
        language, _, rest = header.partition(" ")
        title = re.match(r'title="([\w.-]+)"', rest)
        found.append(Block(str(document.relative_to(CHECKOUT)), language, title[1] if title else "", text))
    return found


def commands(block: Block) -> list[list[str]]:
    """The commands of a block as lists of words, without comments and the folder of the virtual environment."""
    if block.language:
        return []
    lines = block.text.replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [[each[0].removeprefix(".venv/bin/"), *each[1:]] for each in words if each]


ALL = [block for document in DOCUMENTS for block in blocks(document)]
COMMANDS = [(block.page, words) for block in ALL for words in commands(block)]
