"""Which columns of a column file hold the words and their tags, by what all of its lines hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trials.corpora.cell_evidence import TagEvidence
from trials.corpora.column_lines import (
    column_blocks,
    header_line,
    is_empty_token,
    is_numbered,
    separator_of,
    usual_width,
)
from trials.corpora.corpus import CorpusReader
from trials.corpora.text_file import read_lines
from trials.errors import DataError, UnclearError, quote
from trials.spec import Columns

_MOST_TAGS = 200  # the largest tag sets, those of CoNLL-2009's Czech apart, have fewer
_COARSE = ("ne-coarse-lit", "ne-coarse")  # of CLEF-HIPE's columns, those that its first task scores
_id = re.compile(r"[A-Za-z]*\d{4,}|[A-Za-z]*\d*(?:[-_.]\d+)+|(?=\D*\d)[0-9a-f-]{8,}")
_CLEAR = 0.95  # of the words are ids
_PLACEHOLDERS = frozenset("_-*")  # a column without content


def find_positions(path: Path, given: Columns | None, read: CorpusReader) -> tuple[Columns, list[str]]:
    """The positions of words and tags that are not given, and a sentence on each that is not the reader's default.

    Args:
        read: The reader of column files, by which options are tried.

    Raises:
        UnclearError: Several columns may hold the tags.
        DataError: The file cannot be read.
    """
    columns = given or Columns()
    lines = read_lines(path)
    header = header_line(lines)
    columns = columns.model_copy(update={
        key: header.index(str(name).lower()) for key, name in columns if str(name).lower() in header
    })  # fmt: skip
    if columns.tokens is not None and columns.tags is not None:
        return columns, []
    blocks = column_blocks(lines, columns.tags if isinstance(columns.tags, int) else -1)
    width, notes = usual_width(blocks), list[str]()
    if header:
        notes.append(f"the first line names the columns ({', '.join(header)}) and is no sentence")
    separator, leads = separator_of(lines)
    if leads:
        notes.append("each line begins with a space or tab, which is left out")
    if separator.pattern == "\t":
        notes.append("only tabs separate the columns, as cells hold spaces")
    if n := sum(is_empty_token(separator.split(line)) for line in lines):
        notes.append(f"{n:,} lines without a word (as Label Studio writes them) are left out")
    rows = [line.cells for block in blocks for line in block if len(line.cells) >= width]
    values = [Counter(row[i] for row in rows) for i in range(width)]
    spans = [i for i, tags in enumerate(values) if TagEvidence.from_counts(tags).are_spans]
    spans = [header.index(name) for name in _COARSE if name in header][:1] or spans
    if given is None and width == 2 and spans == [0]:
        notes.append("each line has the tag first, and then the word (--words and --tags for others)")
        return Columns(tokens=1, tags=0), notes
    is_counted = columns.tokens is None and width > 2 and is_numbered(blocks)
    if columns.tokens is None and not header and not is_counted and values:
        _refuse_no_words(path, values, spans, read)
    if is_counted:
        columns = columns.model_copy(update={"tokens": 1})
        notes.append("column 0 numbers the words of each sentence, so the words are column 1 (--words for another)")
    if columns.tags is None and (i := _tags(path, values, spans, columns.tokens or 0, is_counted, read)) is not None:
        columns = columns.model_copy(update={"tags": i})
        notes.append(f"the tags are column {i} (--tags for another)")
    return columns, notes


def _refuse_no_words(path: Path, values: Sequence[Counter[str]], spans: Sequence[int], read: CorpusReader) -> None:
    """Raise UnclearError where the first column holds tags of spans, or ids."""
    ids = [word for word in values[0] if _id.fullmatch(word)]
    has_ids = sum(values[0][word] for word in ids) >= _CLEAR * values[0].total()
    tag = 0 if 0 in spans else spans[-1] if spans else len(values) - 1
    ways = sorted({*range(len(values))} - {*spans, tag, 0}, key=lambda i: -len(values[i]))
    if 0 in spans or has_ids:
        what = "tags of spans" if 0 in spans else f"ids ({quote(ids[0])}, ...)"
        raise UnclearError(
            f"{path}: which column holds the words? The first one has {what}.",
            _that_read(path, [{"words": i, "tags": tag} for i in (*ways, *([0] if has_ids else []))], read),
        )


def _tags(
    path: Path, values: Sequence[Counter[str]], spans: list[int], word: int | str, is_counted: bool, read: CorpusReader
) -> int | None:
    """The position of the tags; None for the last column, the reader's default. Raises UnclearError."""
    last, others = len(values) - 1, [i for i in range(is_counted, len(values)) if i != word]
    spans = [i for i in spans if i in others]
    if last + 1 - is_counted <= 2 or (last in spans and not is_counted):
        return None
    if last in spans:
        return _outer(values, spans)
    likely = spans or [i for i in others if _may_be_tags(values[i])]
    if len(likely) == 1 and (is_counted or likely[0] != last):
        return likely[0]
    if not likely or (last in likely and not is_counted):
        return None
    shown = (f"{i} ({', '.join(map(quote, [*values[i]][:3]))}, ...)" for i in likely)
    raise UnclearError(
        f"{path}: which column holds the tags? Several may: {'; '.join(shown)}.",
        _that_read(path, [{"words": word, "tags": i} for i in likely], read),
    )


def _that_read(
    path: Path, options: Iterable[Mapping[str, str | int]], read: CorpusReader
) -> Iterator[Mapping[str, object]]:
    """The options with which the file can be read."""
    for option in options:
        with suppress(DataError):
            read(path, Columns(tokens=option["words"], tags=option["tags"]))
            yield option


def _may_be_tags(values: Counter[str]) -> bool:
    """Whether values look like a tag set: few, not all a placeholder, and no numbers of heads."""
    n = values.total()
    if not 2 <= len(values) <= min(_MOST_TAGS, max(2, n // 2)) or {*values} <= _PLACEHOLDERS:
        return False
    return sum(values[value] for value in values if value.isdigit() or value in _PLACEHOLDERS) < n / 2


def _outer(values: Sequence[Counter[str]], spans: Sequence[int]) -> int | None:
    """Of nested annotation the outer spans, as in GermEval 2014: the inner ones have no other types and are fewer."""
    types = {i: {value[2:] for value in values[i] if value[1:2] == "-"} for i in spans}
    n = {i: sum(values[i][value] for value in values[i] if value[1:2] == "-") for i in spans}
    inner = spans[-1]
    return next((i for i in reversed(spans[:-1]) if types[inner] <= types[i] and 2 * n[inner] < n[i]), None)
