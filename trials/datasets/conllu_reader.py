"""Read CoNLL-U treebanks (https://universaldependencies.org/format.html) through the `conllu` package.

Only syntactic words are kept, those with an integer id: multi-word ranges (`3-4`) and empty nodes (`5.1`) are not
words of the sentence. The package says what is wrong with a block but not where, so the lines are checked first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import conllu
from conllu.exceptions import ParseException

from trials.datasets.corpus import CORPUS_FORMATS, Sentence
from trials.errors import DataError

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
# Only id, form and upos are used; the parsers of the others cost more than half of the reading time.
_CHEAP = {name: (lambda line, i: line[i]) for name in ("feats", "head", "deps", "misc", "xpos", "lemma", "deprel")}


@CORPUS_FORMATS.register("conllu")
def read_conllu(path: Path) -> list[Sentence]:
    """All sentences of a treebank file, in its order.

    Raises:
        DataError: the file is unreadable, not UTF-8, or a line breaks the format; names file and line.
    """
    return [_sentence(path, number, block) for number, block in _blocks(path)]


def _blocks(path: Path) -> Iterator[tuple[int, str]]:
    """(line number of its first line, text) of every sentence; blank lines end a sentence."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start}).") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    block: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        line = line.rstrip("\r")
        if line.strip():
            _check_line(path, number, line)
            block.append(line)
        elif block:
            yield number - len(block), "\n".join(block)
            block = []


def _check_line(path: Path, number: int, line: str) -> None:
    if line.startswith("#"):
        return
    columns = line.split("\t")
    if len(columns) != len(COLUMNS):
        raise DataError(
            f"{path}:{number}: a token line has {len(columns)} columns, CoNLL-U needs {len(COLUMNS)}, "
            "separated by tabs. Mend the line or take it out."
        )
    if any("  " in column for column in columns[: COLUMNS.index("upos") + 1]):
        # The conllu package would take them for the end of a column and give the word another one's tag.
        raise DataError(f"{path}:{number}: a column holds two spaces in a row. Put one in their place.")
    if not columns[0].replace("-", "").replace(".", "").isdigit():
        raise DataError(
            f"{path}:{number}: the id is {columns[0]!r}; CoNLL-U needs an integer, a range like 3-4 or an empty node "
            "like 5.1. Mend the line or take it out."
        )


def _sentence(path: Path, number: int, block: str) -> Sentence:
    try:
        parsed = conllu.parse(block, fields=COLUMNS, field_parsers=_CHEAP)
    except ParseException as error:
        raise DataError(f"{path}:{number}: the sentence that starts here is not CoNLL-U: {error}.") from error
    words = [token for sentence in parsed for token in sentence if isinstance(token["id"], int)]
    if not words:
        raise DataError(f"{path}:{number}: the sentence that starts here has no words. Take it out.")
    untagged = next((word for word in words if word["upos"] in (None, "_", "")), None)
    if untagged is not None:
        raise DataError(f"{path}:{number}: word {untagged['id']} of the sentence that starts here has no UPOS tag.")
    return Sentence(tuple(word["form"] for word in words), tuple(word["upos"] for word in words))
