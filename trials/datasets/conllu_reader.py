"""Read CoNLL-U treebanks (https://universaldependencies.org/format.html) through the `conllu` package.

Only syntactic words, those with an integer id, are read: multi-word ranges (`3-4`) and empty nodes (`5.1`) are skipped.
The package's errors do not name a line, so the lines are validated first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from trials.datasets.broken_lines import convert_all
from trials.datasets.column_keys import check_keys
from trials.datasets.corpus import CORPUS_FORMATS, Sentence
from trials.datasets.documents import documents_at
from trials.datasets.text_file import read_lines
from trials.errors import DataError, unknown
from trials.escaping import quoted
from trials.settings import Columns

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
TAGS = ("upos", "xpos")
# Only id, form and a tag are used; parsing the other columns takes more than half of the reading time.
_CHEAP = {name: (lambda line, i: line[i]) for name in ("feats", "head", "deps", "misc", "xpos", "lemma", "deprel")}


def read_conllu(path: Path, columns: Columns, first: int | None = None) -> list[Sentence]:
    """The sentences of a treebank file, in its order; `columns.tags` is `upos` (the default) or `xpos`.

    With `first` only so many are read, and the rest of the file is not validated.

    Raises:
        DataError: the file is unreadable or not UTF-8; names it.
        BrokenLinesError: lines break the format; names file and line of each.
    """
    check_keys(path, columns, "a CoNLL-U file", "tags")
    tag = "upos" if columns.tags is None else columns.tags
    if tag not in TAGS:
        raise DataError(f"{path}: columns.tags: {unknown(str(tag), TAGS)}")
    assert isinstance(tag, str)
    lines = read_lines(path)
    blocks = [*islice(_blocks(lines), first)]
    documents = documents_at(path, lines, [number + _first_word(block) for number, block in blocks])
    whole = zip(blocks, documents, strict=True)
    return convert_all(lambda each: _sentence(path, *each[0], tag)._replace(document=each[1]), whole)


CORPUS_FORMATS.register("conllu")(read_conllu)  # not as a decorator, which would change its type


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """(line number of its first line, lines) of every sentence; blank lines end a sentence."""
    block: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line.strip():
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []


def _first_word(block: Sequence[str]) -> int:
    """Which line of a sentence, from 0, is that of its first word."""
    return next((i for i, line in enumerate(block) if line.partition("\t")[0].isdigit()), 0)


def _check_line(path: Path, number: int, line: str, tag_column: int) -> None:
    if line.startswith("#"):
        return
    columns = line.split("\t")
    if len(columns) != len(COLUMNS):
        raise DataError(
            f"{path}:{number}: a token line has {len(columns)} columns, CoNLL-U needs {len(COLUMNS)}, "
            "separated by tabs. Fix or delete this line."
        )
    if any("  " in column for column in columns[: tag_column + 1]):
        # The conllu package would split the column there and give the word the wrong tag.
        raise DataError(f"{path}:{number}: a column holds two spaces in a row. Replace them by one.")
    if not columns[0].replace("-", "").replace(".", "").isdigit():
        raise DataError(
            f"{path}:{number}: the id is {quoted(columns[0])}; CoNLL-U needs an integer, a range like 3-4 or an empty "
            "node like 5.1. Fix or delete this line."
        )


def _sentence(path: Path, number: int, block: list[str], tag: str) -> Sentence:
    convert_all(lambda each: _check_line(path, *each, COLUMNS.index(tag)), enumerate(block, start=number))
    import conllu  # a corpus that is encoded already is trained on without it
    from conllu.exceptions import ParseException

    try:
        parsed = conllu.parse("\n".join(block), fields=COLUMNS, field_parsers=_CHEAP)
    except ParseException as error:
        raise DataError(
            f"{path}:{number}: the sentence that starts here is not CoNLL-U: {quoted(str(error))}."
        ) from error
    words = [token for sentence in parsed for token in sentence if isinstance(token["id"], int)]
    if not words:
        raise DataError(f"{path}:{number}: the sentence that starts here has no words. Delete it.")
    untagged = next((word for word in words if word[tag] in (None, "_", "")), None)
    if untagged is not None:
        raise DataError(
            f"{path}:{number}: word {untagged['id']} of the sentence that starts here has no {tag.upper()} tag."
        )
    place = f"{path}:{number + _first_word(block)}"
    return Sentence(tuple(word["form"] for word in words), tuple(word[tag] for word in words), place)
