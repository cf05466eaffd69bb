"""Read column files such as those of CoNLL-2003: one word per line, a blank line between two sentences.

Columns are separated by ASCII spaces and tabs only, as words may hold other spaces (U+00A0); by tabs alone where these
divide all lines alike and spaces do not. The first column is the word and the last its tag, unless `columns` says
otherwise by position.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, groupby, islice
from pathlib import Path
from typing import NamedTuple

from trials.datasets.corpus import CORPUS_FORMATS, DOCUMENT, Sentence, documents_at
from trials.datasets.text_file import check_keys, convert_all, read_lines
from trials.errors import DataError, unknown
from trials.escaping import quoted
from trials.settings import Columns

_range = re.compile(r"\d+[-.]\d+")
_gaps, _tab = re.compile("[ \t]+"), re.compile("\t")
_HEADER = frozenset((  # names of columns, where a first line holds nothing else
    "id", "index", "sent_id", "sentence_id", "word", "words", "token", "tokens", "form", "text", "lemma", "tag", "tags",
    "label", "labels", "pos", "upos", "xpos", "chunk", "ner", "ner_tag", "ner_tags", "bio", "iob",
))  # fmt: skip
_note = re.compile("#+ ")  # how a comment starts that may have as many columns as a line of a word
_surely_tag = re.compile("#|O|[BIESLU]-.+")  # the Penn Treebank's own tag of the word "#", and tags of spans


class ColumnLine(NamedTuple):
    """A line of the file.

    Attributes:
        number: Counted from 1.
        cells: Its columns; only the first may be empty.
        maybe_comment: Whether it starts like a comment.
        text: The line itself.
    """

    number: int
    cells: list[str]
    maybe_comment: bool
    text: str


Blocks = list[list[ColumnLine]]


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
    file = _File(path, word, tag, usual_width(blocks), word >= 0 and tag >= 0 and is_numbered(blocks))
    documents = documents_at(path, lines, [block[0].number for block in blocks[:first]])
    whole = zip(blocks[:first], documents, strict=True)
    return convert_all(lambda pair: file.sentence(pair[0])._replace(document=pair[1]), whole)


CORPUS_FORMATS.register("columns")(read_columns)  # not as a decorator, which would change its type


def _position(path: Path, key: str, value: str | int | None, default: int) -> int:
    if isinstance(value, str):
        raise DataError(
            f"{path}: columns.{key}: a column file has no header line, so {value!r} names no column. "
            "Give its position: 0 is the first, -1 the last."
        )
    return default if value is None else value


def column_blocks(lines: Iterable[str], tag: int = -1) -> Blocks:
    """The lines of words between blank lines and document starts, without comments; `tag` is the tags' position."""
    return _without_header(_without_comments(list(_blocks(lines)), tag), tag)


def separator_of(lines: Sequence[str]) -> tuple[re.Pattern[str], bool]:
    """What separates the columns, and whether every line begins with it, which then stands for no column."""
    inside = [line.rstrip(" \t") for line in lines if line.strip() and line[0] != "#" and DOCUMENT not in line]
    leads = bool(inside) and all(line[0] in " \t" for line in inside)
    inside = [line.lstrip(" \t") for line in inside] if leads else inside
    widths = {line.count("\t") for line in inside}
    has_spaces = len(widths) == 1 and 0 not in widths and any(" " in line for line in inside)
    is_tabs = has_spaces and len({len(_gaps.split(line)) for line in inside}) > 1
    return (_tab if is_tabs else _gaps), leads


def is_empty_token(cells: Sequence[str]) -> bool:
    """Whether a line is a token of no letters, as Label Studio writes them."""
    return [*cells[-3:-1]] == ["-X-", "_"] and not any(cells[:-3])


def header_line(lines: Sequence[str]) -> list[str]:
    """The names of the columns, where the first line holds them; none where it does not."""
    cells = _gaps.split(next((line for line in lines if line.strip()), "").strip().lower())
    return cells if len(cells) > 1 and set(cells) <= _HEADER else []


def _without_header(blocks: Blocks, tag: int) -> Blocks:
    if not blocks or not header_line([blocks[0][0].text]):
        return blocks
    first = blocks[0][0].cells
    place = tag if -len(first) <= tag < len(first) else -1
    others = (line.cells for block in blocks for line in block if line is not blocks[0][0])
    if any(cells[place] == first[place] for cells in others if -len(cells) <= place < len(cells)):
        return blocks  # it occurs as a tag
    return [block for block in ([*blocks[0][1:]], *blocks[1:]) if block]


def usual_width(blocks: Blocks) -> int:
    """The number of columns of most lines that have a word and a tag; 0 without lines."""
    counts = Counter(len(line.cells) for block in blocks for line in block if len(line.cells) > 1)
    return counts.most_common(1)[0][0] if counts else 0


def is_numbered(blocks: Blocks) -> bool:
    """Whether the first column counts the words of every sentence, from 0 or 1; a range (3-4) counts nothing."""
    counted = [[line.cells[0] for line in block if line.cells[0].isdigit()] for block in blocks]
    starts = {numbers[0] for numbers in counted if numbers}
    return (
        starts in ({"0"}, {"1"})
        and sum(map(len, counted)) >= 2
        and all(
            len(numbers) > 0 and numbers == [str(int(numbers[0]) + i) for i in range(len(numbers))]
            for numbers in counted
        )
        and all(line.cells[0].isdigit() or _range.fullmatch(line.cells[0]) for block in blocks for line in block)
    )


def _blocks(lines: Iterable[str]) -> Iterator[list[ColumnLine]]:
    """The lines between blank lines and document starts."""
    lines = list(lines)
    separator, leads = separator_of(lines)
    rows = (
        ColumnLine(number, separator.split(text.strip(" \t") if leads else text.rstrip(" \t")), text[:1] == "#", text)
        for number, text in enumerate(lines, start=1)
    )
    for is_word, group in groupby(rows, lambda line: line.cells != [""] and DOCUMENT not in line.cells[:2]):
        block = list(group)
        if is_word and not all(is_empty_token(line.cells) for line in block):
            yield block


def _without_comments(blocks: Blocks, tag: int) -> Blocks:
    if not any(block[0].maybe_comment for block in blocks):
        return blocks
    others = [line.cells for block in blocks for line in block if not line.maybe_comment]
    width = usual_width([[line for line in block if not line.maybe_comment] for block in blocks]) or usual_width(blocks)
    tags = {cells[tag] for cells in others if -len(cells) <= tag < len(cells)}

    def is_comment(line: ColumnLine) -> bool:
        if not line.maybe_comment:
            return False
        if len(line.cells) != width:
            return True
        if not _note.match(line.text):
            return False
        at = line.cells[tag] if -width <= tag < width else ""
        return not others or (at not in tags and not _surely_tag.fullmatch(at))

    return [lines for block in blocks if (lines := list(dropwhile(is_comment, block)))]


@dataclass(frozen=True)
class _File:
    """The layout that every token line of a file must have.

    Attributes:
        word, tag: Positions of the word and its tag.
        width: Number of columns of most lines.
        varies: Whether the words are numbered. Then sentences may differ in it, as in CoNLL-2009, where each predicate
            adds a column; and a line numbered 3-4 or 5.1 is no word.
    """

    path: Path
    word: int
    tag: int
    width: int
    varies: bool

    def sentence(self, block: list[ColumnLine]) -> Sentence:
        block = [line for line in block if not is_empty_token(line.cells)]
        counted = [line for line in block if not (self.varies and self.word > 0 and _range.fullmatch(line.cells[0]))]
        own = {len(line.cells) for line in block}
        file = replace(self, width=own.pop()) if self.varies and len(own) == 1 else self
        convert_all(file._check, block)
        words, tags = ([line.cells[place] for line in counted] for place in (self.word, self.tag))
        is_each = counted[-1].number - counted[0].number == len(counted) - 1
        return Sentence(tuple(words), tuple(tags), f"{self.path}:{counted[0].number}", word_lines=is_each)

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
            comment = " If it is a comment, put it before its sentence." if line.maybe_comment else ""
            raise self._error(line, f"a token line has {n} columns, most of the file's have {self.width}.{comment}")
        if self.word % n == self.tag % n:
            raise self._error(line, "columns.tokens and columns.tags are the same column.")

    def _error(self, line: ColumnLine, rule: str) -> DataError:
        return DataError(f"{self.path}:{line.number}: {rule} Fix this line or `columns`.")


# Read CoNLL-U treebanks (https://universaldependencies.org/format.html) through the `conllu` package.
#
# Only syntactic words, those with an integer id, are read: multi-word ranges (`3-4`) and empty nodes (`5.1`) are
# skipped. The package's errors do not name a line, so the lines are validated first.

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
TAGS = ("upos", "xpos")
_id = re.compile(r"0|[1-9]\d*|([1-9]\d*)-([1-9]\d*)|\d+\.[1-9]\d*", re.ASCII)
# Only id, form and a tag are used; parsing the other columns takes more than half of the reading time.
_CHEAP = {name: (lambda line, i: line[i]) for name in ("feats", "head", "deps", "misc", "xpos", "lemma", "deprel")}


def read_conllu(path: Path, columns: Columns, first: int | None = None) -> list[Sentence]:
    """The sentences of a treebank file, in its order; `columns.tags` is `upos` (the default), `xpos`, or the name of a
    tag in MISC, which is `O` where a word has none.

    With `first` only so many are read, and the rest of the file is not validated.

    Raises:
        DataError: the file is unreadable or not UTF-8; names it.
        BrokenLinesError: lines break the format; names file and line of each.
    """
    check_keys(path, columns, "a CoNLL-U file", "tags")
    tag = "upos" if columns.tags is None else columns.tags
    lines = read_lines(path)
    if tag not in TAGS and not any(f"{tag}=" in line for line in lines):
        raise DataError(f"{path}: columns.tags: {unknown(str(tag), TAGS)}")
    assert isinstance(tag, str)
    rows = (ColumnLine(n, text.split("\t"), text.startswith("#"), text) for n, text in enumerate(lines, start=1))
    sentences = (list(block) for is_text, block in groupby(rows, lambda row: bool(row.text.strip())) if is_text)
    blocks = [*islice(sentences, first)]
    documents = documents_at(path, lines, [_first_word(block).number for block in blocks])
    whole = zip(blocks, documents, strict=True)
    return convert_all(lambda pair: _sentence(path, pair[0], tag)._replace(document=pair[1]), whole)


CORPUS_FORMATS.register("conllu")(read_conllu)  # not as a decorator, which would change its type


def _first_word(block: Sequence[ColumnLine]) -> ColumnLine:
    return next((row for row in block if row.cells[0].isdigit()), block[0])


def _check_row(path: Path, row: ColumnLine, tag_column: int) -> None:
    if row.maybe_comment:
        return
    if len(row.cells) != len(COLUMNS):
        raise DataError(
            f"{path}:{row.number}: a token line has {len(row.cells)} columns, CoNLL-U needs {len(COLUMNS)}, "
            "separated by tabs. Fix or delete this line."
        )
    if any("  " in cell for cell in row.cells[: tag_column + 1]):
        # The conllu package would split the column there and give the word the wrong tag.
        raise DataError(f"{path}:{row.number}: a column holds two spaces in a row. Replace them by one.")
    match = _id.fullmatch(row.cells[0])
    if match is None or (match[1] and int(match[1]) > int(match[2])):
        raise DataError(
            f"{path}:{row.number}: the id is {quoted(row.cells[0])}; CoNLL-U needs an integer, a range like 3-4 or an "
            "empty node like 5.1. Fix or delete this line."
        )


def _sentence(path: Path, block: Sequence[ColumnLine], tag: str) -> Sentence:
    convert_all(lambda row: _check_row(path, row, COLUMNS.index(tag if tag in TAGS else "form")), block)
    import conllu  # a corpus that is encoded already is trained on without it
    from conllu.exceptions import ParseException

    start = f"{path}:{block[0].number}"
    try:
        parsed = conllu.parse("\n".join(row.text for row in block), fields=COLUMNS, field_parsers=_CHEAP)
    except ParseException as error:
        raise DataError(f"{start}: the sentence that starts here is not CoNLL-U: {quoted(str(error))}.") from error
    words = [token for sentence in parsed for token in sentence if isinstance(token["id"], int)]
    if not words:
        raise DataError(f"{start}: the sentence that starts here has no words. Delete it.")
    if tag not in TAGS:
        for word in words:
            word[tag] = dict(part.partition("=")[::2] for part in (word["misc"] or "").split("|")).get(tag, "O")
    untagged = next((word for word in words if word[tag] in (None, "_", "")), None)
    if untagged is not None:
        raise DataError(f"{start}: word {untagged['id']} of the sentence that starts here has no {tag.upper()} tag.")
    place = f"{path}:{_first_word(block).number}"
    return Sentence(tuple(word["form"] for word in words), tuple(word[tag] for word in words), place)
