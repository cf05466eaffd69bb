"""The lines of column files, a word each: what separates their columns, what is no word, and how many they have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile, groupby
from typing import NamedTuple

from trials.corpora.documents import DOCUMENT

# Of a treebank, between tabs.
CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
WORD_RANGE = re.compile(r"\d+[-.]\d+")
_gaps, _tab = re.compile("[ \t]+"), re.compile("\t")
_HEADER = frozenset((  # names of columns, where a first line holds nothing else
    "id", "index", "sent_id", "sentence_id", "word", "words", "token", "tokens", "form", "text", "lemma", "tag", "tags",
    "label", "labels", "pos", "upos", "xpos", "chunk", "ner", "ner_tag", "ner_tags", "bio", "iob", "misc",
))  # fmt: skip
_hipe = re.compile(r"nel?-[a-z-]+|nel?")  # columns of CLEF-HIPE: NE-COARSE-LIT, NEL-METO
_key = re.compile(r"#\s*[\w.:-]+\s*=\s")  # a comment between any two lines: `# language = en`
_sentence_end = re.compile(r"(?:^|\|)EndOfSentence(?:\||$)")  # in the last column, of CLEF-HIPE
_note = re.compile("#+ ")  # how a comment starts that may have as many columns as a line of a word
_surely_tag = re.compile("#|O|[BIESLU]-.+")  # the Penn Treebank's own tag of the word "#", and tags of spans


class ColumnLine(NamedTuple):
    """A line of the file.

    Attributes:
        number: Counted from 1.
        cells: Its columns; only the first may be empty.
        text: The line itself.
    """

    number: int
    cells: list[str]
    text: str

    @property
    def maybe_comment(self) -> bool:
        """Whether it starts like a comment."""
        return self.text.startswith("#")


Blocks = list[list[ColumnLine]]


def column_blocks(lines: Iterable[str], tag: int = -1) -> Blocks:
    """The lines of words between blank lines and document starts, without comments; `tag` is the tags' position."""
    return _without_header(_without_comments(list(_blocks(lines)), tag), tag)


def separator_of(lines: Sequence[str]) -> tuple[re.Pattern[str], bool]:
    """The separator of columns, and whether every line begins with it, which then does not make an empty column."""
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
    return cells if len(cells) > 1 and all(cell in _HEADER or _hipe.fullmatch(cell) for cell in cells) else []


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
    if not all(counted) or starts not in ({"0"}, {"1"}) or sum(map(len, counted)) < 2:
        return False
    follow = all(numbers == [str(int(numbers[0]) + i) for i in range(len(numbers))] for numbers in counted)
    return follow and all(
        line.cells[0].isdigit() or WORD_RANGE.fullmatch(line.cells[0]) for block in blocks for line in block
    )


def _blocks(lines: Iterable[str]) -> Iterator[list[ColumnLine]]:
    """The lines between blank lines and document starts."""
    lines = list(lines)
    separator, leads = separator_of(lines)
    rows = (
        ColumnLine(number, separator.split(text.strip(" \t") if leads else text.rstrip(" \t")), text)
        for number, text in enumerate(lines, start=1)
    )
    for is_word, group in groupby(rows, lambda line: line.cells != [""] and DOCUMENT not in line.cells[:2]):
        block = list(group)
        if is_word and any(_sentence_end.search(line.cells[-1]) for line in block):
            yield from _sentences(block)
        elif is_word and not all(is_empty_token(line.cells) for line in block):
            yield block


def _sentences(block: Sequence[ColumnLine]) -> Iterator[list[ColumnLine]]:
    """The sentences of a block whose last words say that they are."""
    sentence = list[ColumnLine]()
    for line in block:
        sentence.append(line)
        if _sentence_end.search(line.cells[-1]):
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def _without_comments(blocks: Blocks, tag: int) -> Blocks:
    if not any(line.maybe_comment for block in blocks for line in block):
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
        cell = line.cells[tag] if -width <= tag < width else ""
        return not others or (cell not in tags and not _surely_tag.fullmatch(cell))

    blocks = [[line for line in block if not (_key.match(line.text) and is_comment(line))] for block in blocks]
    return [lines for block in blocks if (lines := list(dropwhile(is_comment, block)))]
