"""Read CoNLL-U treebanks (https://universaldependencies.org/format.html) through the `conllu` package.

Only syntactic words, those with an integer id, are read: multi-word ranges (`3-4`) and empty nodes (`5.1`) are
skipped. The package's errors do not name a line, so the lines are validated first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import groupby, islice
from pathlib import Path

from trials.corpora.broken_lines import check_keys, convert_all
from trials.corpora.cell_evidence import TagEvidence
from trials.corpora.column_lines import CONLLU_COLUMNS, ColumnLine
from trials.corpora.corpus import CORPUS_FORMATS, Sentence
from trials.corpora.documents import documents_at
from trials.corpora.layout import FORMAT_LAYOUTS, Asked, FormatLayout
from trials.corpora.text_file import read_lines
from trials.errors import DataError, UnclearError, quote, unknown_name
from trials.spec import Columns

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
        raise DataError(f"{path}: columns.tags: {unknown_name(str(tag), TAGS)}")
    assert isinstance(tag, str)
    rows = (ColumnLine(n, text.split("\t"), text) for n, text in enumerate(lines, start=1))
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
    if len(row.cells) != len(CONLLU_COLUMNS):
        raise DataError(
            f"{path}:{row.number}: a token line has {len(row.cells)} columns, CoNLL-U needs {len(CONLLU_COLUMNS)}, "
            "separated by tabs. Fix or delete this line."
        )
    if any("  " in cell for cell in row.cells[: tag_column + 1]):
        # The conllu package would split the column there and give the word the wrong tag.
        raise DataError(f"{path}:{row.number}: a column holds two spaces in a row. Replace them by one.")
    match = _id.fullmatch(row.cells[0])
    if match is None or (match[1] and int(match[1]) > int(match[2])):
        raise DataError(
            f"{path}:{row.number}: the id is {quote(row.cells[0])}; CoNLL-U needs an integer, a range like 3-4 or an "
            "empty node like 5.1. Fix or delete this line."
        )


def _sentence(path: Path, block: Sequence[ColumnLine], tag: str) -> Sentence:
    convert_all(lambda row: _check_row(path, row, CONLLU_COLUMNS.index(tag if tag in TAGS else "form")), block)
    import conllu  # a corpus that is encoded already is trained on without it
    from conllu.exceptions import ParseException

    start = f"{path}:{block[0].number}"
    try:
        parsed = conllu.parse("\n".join(row.text for row in block), fields=CONLLU_COLUMNS, field_parsers=_CHEAP)
    except ParseException as error:
        raise DataError(f"{start}: the sentence that starts here is not CoNLL-U: {quote(str(error))}.") from error
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


def _columns(path: Path, asked: Asked) -> tuple[Columns, list[str]]:
    """The tags of a treebank: upos, unless others are given. Asks which ones where MISC holds tags of spans."""
    columns = asked.given or Columns()
    if columns.tags is None and (names := _misc_tags(read_lines(path))):
        raise UnclearError(
            f"{path}: which tags? Its words have UPOS tags, and tags of spans in MISC ({', '.join(names)}=...).",
            [{"tags": name} for name in (*names, TAGS[0])],
        )
    return columns, []


def _misc_tags(lines: Sequence[str]) -> list[str]:
    """The names of tags of spans in the last column of a treebank, as `name=B-PER`."""
    found = defaultdict[str, Counter[str]](Counter)
    for cell, n in Counter(line.rpartition("\t")[2] for line in lines).items():
        for name, _, value in (part.partition("=") for part in cell.split("|")):
            if value:
                found[name][value] += n
    return [
        name
        for name, values in found.items()
        if (tags := TagEvidence.from_counts(values)).spans == 1 and tags.are_spans
    ]


FORMAT_LAYOUTS.register("conllu")(FormatLayout(_columns))
