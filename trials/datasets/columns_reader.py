"""Read column files such as those of CoNLL-2003: one word per line, a blank line between two sentences.

Columns are separated by ASCII spaces and tabs only, as words may hold other spaces (U+00A0). The first column is the
word and the last its tag, unless `columns` says otherwise by position.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

from trials.datasets.broken_lines import convert_all
from trials.datasets.column_keys import check_keys
from trials.datasets.corpus import CORPUS_FORMATS, Sentence
from trials.datasets.text_file import read_lines
from trials.errors import DataError
from trials.escaping.untrusted_text import quoted
from trials.settings import Columns

DOCUMENT = "-DOCSTART-"  # a line of its own between the documents of CoNLL-2003
_gaps = re.compile("[ \t]+")
_surely_tag = re.compile("#|O|[BIESLU]-.+")  # the Penn Treebank's own tag of the word "#", and tags of spans


class ColumnLine(NamedTuple):
    """A line of the file.

    Attributes:
        number: Counted from 1.
        cells: Its columns; only the first may be empty.
        maybe_comment: Whether it starts like a comment.
    """

    number: int
    cells: list[str]
    maybe_comment: bool


def read_columns(path: Path, columns: Columns, first: int | None = None) -> list[Sentence]:
    """The sentences of a column file, or its first ones; `columns.tokens` and `columns.tags` are positions.

    `-DOCSTART-` lines are skipped, and so are comments before a sentence's first word. Both a comment and a line of the
    word `#` may start with `# `; it is a comment if its number of columns differs from that of the other lines, or if
    what it has in place of a tag occurs as a tag nowhere else.

    Raises:
        DataError: the file is unreadable or not UTF-8; names it.
        BrokenLinesError: lines have too few or another number of columns; names file and line of each.
    """
    check_keys(path, columns, "a column file", "tokens", "tags")
    word, tag = _position(path, "tokens", columns.tokens, 0), _position(path, "tags", columns.tags, -1)
    blocks = _without_comments(list(_blocks(read_lines(path))), tag)
    file = _File(path, word, tag, next((len(block[0].cells) for block in blocks), 0))
    return convert_all(file.sentence, blocks[:first])


CORPUS_FORMATS.register("columns")(read_columns)  # not as a decorator, which would change its type


def _position(path: Path, key: str, value: str | int | None, default: int) -> int:
    if isinstance(value, str):
        raise DataError(
            f"{path}: columns.{key}: a column file has no header line, so {value!r} names no column. "
            "Give its position: 0 is the first, -1 the last."
        )
    return default if value is None else value


def _blocks(lines: Iterable[str]) -> Iterator[list[ColumnLine]]:
    """The lines between blank lines and document starts."""
    block: list[ColumnLine] = []
    for number, text in enumerate([*lines, ""], start=1):
        cells = _gaps.split(text.rstrip(" \t"))
        if cells[0] != DOCUMENT and cells != [""]:
            block.append(ColumnLine(number, cells, text.startswith("# ")))
        elif block:
            yield block
            block = []


def _without_comments(blocks: list[list[ColumnLine]], tag: int) -> list[list[ColumnLine]]:
    if not any(block[0].maybe_comment for block in blocks):
        return blocks
    others = [line.cells for block in blocks for line in block if not line.maybe_comment]
    width = len(others[0]) if others else 0
    tags = {cells[tag] for cells in others if -len(cells) <= tag < len(cells)}

    def is_comment(line: ColumnLine) -> bool:
        if not line.maybe_comment or len(line.cells) != width or not -width <= tag < width:
            return line.maybe_comment
        return line.cells[tag] not in tags and not _surely_tag.fullmatch(line.cells[tag])

    return [words for block in blocks if (words := list(dropwhile(is_comment, block)))]


@dataclass(frozen=True)
class _File:
    """The layout that every token line of a file must have.

    Attributes:
        word, tag: Positions of the word and its tag.
        width: Number of columns of the file's first token line.
    """

    path: Path
    word: int
    tag: int
    width: int

    def sentence(self, block: list[ColumnLine]) -> Sentence:
        convert_all(self._check, block)
        words, tags = ([cells[place] for _, cells, _ in block] for place in (self.word, self.tag))
        return Sentence(tuple(words), tuple(tags), f"{self.path}:{block[0].number}")

    def _check(self, line: ColumnLine) -> None:
        n = len(line.cells)
        if not line.cells[0]:
            raise self._error(line, "the line starts with a space or tab, so its word is empty.")
        if n < 2:
            raise self._error(
                line, f"a token line has one column, {quoted(line.cells[0])}, and needs a word and its tag."
            )
        for key, place in (("tokens", self.word), ("tags", self.tag)):
            if not -n <= place < n:
                raise self._error(line, f"a token line has {n} columns, and columns.{key} asks for number {place}.")
        if n != self.width:
            raise self._error(line, f"a token line has {n} columns, the file's first one has {self.width}.")
        if self.word % n == self.tag % n:
            raise self._error(line, "columns.tokens and columns.tags are the same column.")

    def _error(self, line: ColumnLine, rule: str) -> DataError:
        return DataError(f"{self.path}:{line.number}: {rule} Fix this line or `columns`.")
