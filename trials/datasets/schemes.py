"""Convert span tags to IOB2: detect IOB1, IOB2 or BIOES (BILOU) and validate the tags against its rules.

The rules are those of Tjong Kim Sang & Veenstra 1999 (IOB1, IOB2) and Ratinov & Roth 2009 (BILOU). Each rule concerns a
tag and its predecessor, so a corpus is validated by its distinct pairs of tags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Literal, NamedTuple

from trials.datasets.broken_lines import BrokenLines
from trials.datasets.corpus import Sentence
from trials.errors import DataError
from trials.escaping.untrusted_text import quoted
from trials.settings import Scheme

Written = Literal["iob1", "iob2", "bioes"]
OUTSIDE = "O"
WRITTEN_AS = {"L": "E", "U": "S"}  # BILOU's letters for what BIOES calls end and single


class Tag(NamedTuple):
    """A span tag in its parts: `B-LOC` is ("B", "LOC"), `O` is ("O", "")."""

    prefix: str
    type: str


class Fault(NamedTuple):
    """A violated rule in a pair of tags: `at` is 0 if the first tag is wrong, and 1 if the second is."""

    at: int
    rule: str


def to_iob2(sentences: Sequence[Sentence], scheme: Scheme) -> list[Sentence]:
    """Copies of the sentences of one file or split with their tags in IOB2.

    Args:
        sentences: The sentences, in any one scheme.
        scheme: How their tags are written; `auto` means BIOES if a tag starts with E, S, L or U, else the one of IOB2
            and IOB1 (in this order) without violations.

    Raises:
        BrokenLinesError: tags are neither `O` nor a prefix and a type, or violate the scheme, or with `auto` both
            schemes; names the sentence's place, the word's number and the tag of each.
    """
    tags = sorted({tag for sentence in sentences for tag in sentence.tags})
    parsed = {tag: _parse(tag) for tag in tags}
    _refuse_bad_tags(sentences, {tag for tag, parts in parsed.items() if parts is None})
    parts = {tag: found for tag, found in parsed.items() if found is not None} | {OUTSIDE: Tag(OUTSIDE, "")}
    pairs = Counter(chain.from_iterable(map(_pairs, sentences)))
    found = _detect(sentences, parts, pairs) if scheme == "auto" else scheme
    faults = _faults(found, parts, pairs)
    is_now = f"`auto`, detected as {found.upper()}" if scheme == "auto" else f"`{scheme}`"
    _refuse(sentences, faults, f"Fix the tag, or `scheme`, which is {is_now}.")
    rewritten = {(first, tag): _iob2(found, parts[first], parts[tag]) for first, tag in pairs}
    return [s._replace(tags=tuple(rewritten[pair] for pair in list(_pairs(s))[:-1])) for s in sentences]


def _pairs(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """Every tag with its predecessor, and the last one with the end of the sentence."""
    return pairwise((OUTSIDE, *sentence.tags, OUTSIDE))


def _parse(tag: str) -> Tag | None:
    prefix, dash, kind = tag.partition("-")
    if tag == OUTSIDE:
        return Tag(OUTSIDE, "")
    return Tag(WRITTEN_AS.get(prefix, prefix), kind) if prefix in set("BIESLU") and dash and kind else None


def _iob1(first: Tag, tag: Tag) -> Fault | None:
    if tag.prefix in "ES":
        return Fault(1, "is not a tag of IOB1, whose tags are O and B-/I- with a type")
    if tag.prefix == "B" and not _continues(first, tag):
        return Fault(1, f"does not follow a {tag.type}, and only there does IOB1 have a B-")
    return None


def _iob2_rule(first: Tag, tag: Tag) -> Fault | None:
    if tag.prefix in "ES":
        return Fault(1, "is not a tag of IOB2, whose tags are O and B-/I- with a type")
    if tag.prefix == "I" and not _continues(first, tag):
        return Fault(1, f"has no preceding B-{tag.type}")
    return None


def _bioes(first: Tag, tag: Tag) -> Fault | None:
    continues = tag.prefix in "IE" and _continues(first, tag)
    if first.prefix in "BI" and not continues:
        return Fault(0, f"is never ended by an E-{first.type} or L-{first.type}")
    if tag.prefix in "IE" and not continues:
        return Fault(1, f"has no preceding B-{tag.type}")
    return None


def _continues(first: Tag, tag: Tag) -> bool:
    return first.prefix in "BI" and first.type == tag.type


RULES: dict[Written, Callable[[Tag, Tag], Fault | None]] = {"iob1": _iob1, "iob2": _iob2_rule, "bioes": _bioes}


def _iob2(scheme: Written, first: Tag, tag: Tag) -> str:
    """A valid tag in IOB2, given its predecessor."""
    if tag.prefix == OUTSIDE:
        return OUTSIDE
    starts = tag.prefix in "BS" or (scheme == "iob1" and not _continues(first, tag))
    return f"{'B' if starts else 'I'}-{tag.type}"


Faults = dict[tuple[str, str], Fault]


def _faults(scheme: Written, parts: dict[str, Tag], pairs: Counter[tuple[str, str]]) -> Faults:
    found = {pair: RULES[scheme](parts[pair[0]], parts[pair[1]]) for pair in pairs}
    return {pair: fault for pair, fault in found.items() if fault is not None}


def _detect(sentences: Sequence[Sentence], parts: dict[str, Tag], pairs: Counter[tuple[str, str]]) -> Written:
    if any(tag.prefix in "ES" for tag in parts.values()):
        return "bioes"
    schemes: tuple[Written, Written] = ("iob2", "iob1")
    faults = {scheme: _faults(scheme, parts, pairs) for scheme in schemes}
    counts = {scheme: sum(pairs[pair] for pair in faults[scheme]) for scheme in schemes}
    best = min(schemes, key=lambda scheme: counts[scheme])
    others = "all others" if counts[best] == 1 else f"all but {counts[best]:,}"
    _refuse(sentences, faults[best], f"Fix the tag; {others} follow {best.upper()}.")
    return best


def _refuse_bad_tags(sentences: Sequence[Sentence], bad: set[str]) -> None:
    broken, rule = BrokenLines(), "is not a span tag, i.e. O or B-/I- with a type."
    for n, sentence in enumerate(sentences, start=1):
        for i, tag in enumerate(sentence.tags):
            if tag in bad:
                way_out = "Fix it, or choose the column of the tags with `columns`."
                broken.add(DataError(f"{_where(n, sentence, i)} {rule} {way_out}"))
    broken.raise_if_any()


def _refuse(sentences: Sequence[Sentence], faults: Faults, way_out: str) -> None:
    if not faults:
        return
    broken = BrokenLines()
    for n, sentence in enumerate(sentences, start=1):
        for i, pair in enumerate(_pairs(sentence)):
            if pair in faults:
                fault = faults[pair]
                broken.add(DataError(f"{_where(n, sentence, i - 1 + fault.at)} {fault.rule}. {way_out}"))
    broken.raise_if_any()


def _where(number: int, sentence: Sentence, i: int) -> str:
    place = sentence.place or f"sentence {number}"
    return f"{place}: word {i + 1}, {quoted(sentence.forms[i])}, has the tag {quoted(sentence.tags[i])}, which"
