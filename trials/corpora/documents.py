"""Which document each sentence is from: a recording, an article, a thread. Sentences of one resemble each other.

Of files whose lines are words, documents are known by comments (`# newdoc` of CoNLL-U), by `-DOCSTART-` (CoNLL-2003),
or by the sentences' ids where these name a document and then count its sentences, as most treebanks of UD do.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

DOCUMENT = "-DOCSTART-"  # a line of its own between the documents of CoNLL-2003
# `# newdoc id = X`, `#begin document (X); part 000` of CoNLL-2012, `# doc_id = X` before each sentence; and ids.
_comment = re.compile(r"#\s*(?:\w+:)?(newdoc|begin document|doc_?id|document_id|sent_id)\b(?:\s+id)?\s*=?\s*(.*?)\s*$")
# How ids end: in the numbers of paragraph and sentence (-p2s1), in one number, or in two (5.150, or a range 006-014).
_ENDS = (
    re.compile(r"(.+?)[-_.,/]*p[-_.]?(\d+)[a-z]?[-_.]?s[-_.]?(\d+)[a-z]?"),
    re.compile(r"(.*?)(\d+)[a-z]?"),
    re.compile(r"(.*?)(\d+)[-.,_](\d+)[a-z]?"),
)
_MOST = 0.95  # of the ids end alike; the others' sentences are documents of their own
_FOLLOW = 0.5  # of the sentences come right after the one before: the ids count what is in a document
_no_document = re.compile(r"(train|training|dev|devel|test|valid|validation|s|sent|sentence|id)?", re.IGNORECASE)


def documents_at(path: Path, lines: Sequence[str], starts: Sequence[int]) -> list[str | None]:
    """A name of the document of each sentence of a file; None for all where the file does not say.

    Args:
        lines: The lines of the file.
        starts: The line of the first word of each sentence, counted from 1, ascending.
    """
    breaks, newdocs, ids = list[int](), dict[int, str](), dict[int, str]()
    for number, line in enumerate(lines, start=1):
        if line.startswith("#") and (match := _comment.match(line)):
            (ids if match[1] == "sent_id" else newdocs)[number] = match[2]
        elif DOCUMENT in line and DOCUMENT in line.split()[:2]:
            breaks.append(number)
    if breaks:
        return [f"{path}:{bisect_right(breaks, start)}" for start in starts]
    if newdocs and starts and min(newdocs) < starts[0]:  # where the first sentence has none, others may be missing
        numbers_before = _last_before(newdocs, starts)
        return [newdocs[number] or f"{path}:{number}" for number in numbers_before if number is not None]
    numbers = _last_before(ids, starts)
    if None in numbers or len({*numbers}) < len(numbers):
        return [None] * len(starts)
    return _documents_of_ids([ids[number] for number in numbers if number is not None])


def _last_before(marks: Mapping[int, str], starts: Sequence[int]) -> list[int | None]:
    """The line of the last mark before each sentence's first word."""
    lines = sorted(marks)
    places = (bisect_right(lines, start) for start in starts)
    return [lines[place - 1] if place else None for place in places]


def _documents_of_ids(ids: Sequence[str]) -> list[str | None]:
    """The part of each id that names its document; None for all where the ids do not show it.

    They show it where they end in a number that goes up by one from most sentences to the next of the same document,
    and where there are several documents with several sentences: ids that only count (`dev-s12`), and ids of sentences
    that were drawn one by one from larger sources (`frwiki_00662`, `frwiki_00711`), name none.
    """
    for end in _ENDS:
        matches = [end.fullmatch(sent_id) for sent_id in ids]
        parts = [(match[1], tuple(map(int, match.groups()[1:]))) for match in matches if match is not None]
        names = {name for name, _ in parts}
        if len(parts) < _MOST * len(ids) or all(_no_document.fullmatch(_letters(name)) for name in names):
            continue
        following = sum(a == b and _follows(before, after) for (a, before), (b, after) in pairwise(parts))
        if 1 < len(names) < len(parts) and following >= _FOLLOW * (len(parts) - len(names)):
            return [None if match is None else match[1] for match in matches]
    return [None] * len(ids)


def _letters(name: str) -> str:
    return re.sub(r"[\d\W_]+", "", name.removesuffix("s").rstrip("-_."))


def _follows(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether the numbers at the end of an id come right after others: the next one, the next paragraph's, or a range
    that begins where the other ends.
    """
    if len(after) == 1:
        return after[0] in (before[0], before[0] + 1)  # 6a, 6b, 7
    return after[-1] == before[-1] + 1 or after[0] in (before[0] + 1, before[-1] + 1)
