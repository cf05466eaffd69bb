"""Read column files such as those of CoNLL-2003: one word per line, a blank line between two sentences.

Columns are separated by ASCII spaces and tabs only, as words may hold other spaces (U+00A0); by tabs alone where these
divide all lines alike and spaces do not. The first column is the word and the last its tag, unless `columns` says
otherwise by position.
"""

from __future__ import annotations

from pathlib import Path

from trials.corpora.broken_lines import check_keys, convert_all
from trials.corpora.column_lines import WORD_RANGE, ColumnLine, column_blocks, is_empty_token, is_numbered, usual_width
from trials.corpora.corpus import CORPUS_FORMATS, Sentence
from trials.corpora.documents import documents_at
from trials.corpora.formats.word_columns import find_positions
from trials.corpora.layout import FORMAT_LAYOUTS, FormatLayout
from trials.corpora.text_file import read_lines
from trials.errors import DataError, quote
from trials.spec import Columns


def read_columns(path: Path, columns: Columns, first: int | None = None) -> list[Sentence]:
    """The sentences of a column file, or its first ones; `columns.tokens` and `columns.tags` are positions.

    `-DOCSTART-` lines begin a document and hold no word. Skipped are a first line that names the columns, and comments
    before a sentence's first word. A comment starts with `#`, as a word may; it is one if its number of columns differs
    from that of most lines, or, where a space follows the `#`, if what it has in place of a tag occurs as a tag nowhere
    else.

    Raises:
        DataError: the file is unreadable or not UTF-8; names it.
        BrokenLinesError: lines have too few or another number of columns; names file and line of each.
    """
    check_keys(path, columns, "a column file", "tokens", "tags")
    word, tag = _position(path, "tokens", columns.tokens, 0), _position(path, "tags", columns.tags, -1)
    lines = read_lines(path)
    blocks = column_blocks(lines, tag)
    width, varies = usual_width(blocks), word >= 0 and tag >= 0 and is_numbered(blocks)
    documents = documents_at(path, lines, [block[0].number for block in blocks[:first]])
    return convert_all(
        lambda pair: _sentence(path, pair[0], word, tag, width, varies=varies)._replace(document=pair[1]),
        zip(blocks[:first], documents, strict=True),
    )


CORPUS_FORMATS.register("columns")(read_columns)  # not as a decorator, which would change its type
FORMAT_LAYOUTS.register("columns")(FormatLayout(lambda path, asked: find_positions(path, asked.given, read_columns)))


def _position(path: Path, key: str, value: str | int | None, default: int) -> int:
    if isinstance(value, str):
        raise DataError(
            f"{path}: columns.{key}: a column file has no header line, so {value!r} names no column. "
            "Give its position: 0 is the first, -1 the last."
        )
    return default if value is None else value


def _sentence(path: Path, block: list[ColumnLine], word: int, tag: int, width: int, *, varies: bool) -> Sentence:
    """The sentence of a block.

    Args:
        word, tag: Positions of the word and its tag.
        width: Number of columns of most lines.
        varies: Whether the words are numbered. Then sentences may differ in it, as in CoNLL-2009, where each predicate
            adds a column; and a line numbered 3-4 or 5.1 is no word.
    """
    block = [line for line in block if not is_empty_token(line.cells)]
    own = {len(line.cells) for line in block}
    width = own.pop() if varies and len(own) == 1 else width

    def check(line: ColumnLine) -> None:
        n = len(line.cells)
        away = next((each for each in (("tokens", word), ("tags", tag)) if not -n <= each[1] < n), None)
        rule = ""
        if not line.cells[0]:
            rule = "the line starts with a space or tab, so its word is empty."
        elif n < 2:
            rule = f"a token line has one column, {quote(line.cells[0])}, and needs a word and its tag."
        elif away is not None:
            rule = f"a token line has {n} columns, and columns.{away[0]} asks for number {away[1]}."
        elif n != width:
            comment = " If it is a comment, put it before its sentence." if line.maybe_comment else ""
            rule = f"a token line has {n} columns, most of the file's have {width}.{comment}"
        elif word % n == tag % n:
            rule = "columns.tokens and columns.tags are the same column."
        if rule:
            raise DataError(f"{path}:{line.number}: {rule} Fix this line or `columns`.")

    convert_all(check, block)
    counted = [line for line in block if not (varies and word > 0 and WORD_RANGE.fullmatch(line.cells[0]))]
    words, tags = (tuple(line.cells[place] for line in counted) for place in (word, tag))
    is_each = counted[-1].number - counted[0].number == len(counted) - 1
    return Sentence(words, tags, f"{path}:{counted[0].number}", word_lines=is_each)
