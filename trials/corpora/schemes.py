"""Convert span tags to IOB2: detect IOB1, IOB2 or BIOES (BILOU), or validate the tags against one of them or IO.

The rules are those of Tjong Kim Sang & Veenstra 1999 (IOB1, IOB2) and Ratinov & Roth 2009 (BILOU). Each rule concerns a
tag and its predecessor, so a corpus is validated by its distinct pairs of tags. All schemes are read by one rule, that
of conlleval: a B- or S- opens a span, and so does any tag that does not continue a span of its type. So where the
scheme is detected, a few tags that break it cost nothing, and are counted; a scheme that was given is enforced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal, NamedTuple

from trials.corpora.broken_lines import BrokenLines
from trials.corpora.cell_evidence import OUTSIDE, Tag, meant_tag, parse_tag, spellings_of
from trials.corpora.corpus import Sentence
from trials.errors import DataError, quote
from trials.spec import Scheme

Written = Literal["iob1", "iob2", "bioes", "io"]
_LETTERS: dict[Written, str] = {"iob1": "BI", "iob2": "BI", "bioes": "BIES", "io": "I"}


class Fault(NamedTuple):
    """A violated rule in a pair of tags: `place` is 0 if the first tag is wrong, and 1 if the second is."""

    place: int
    rule: str


@dataclass(frozen=True)
class SchemeReading:
    """How the span tags of a file or split are written.

    Attributes:
        scheme: The detected scheme, with the fewest broken rules, or the one that was given.
        broken: Tags that break its rules, each of which is read as conlleval does.
        first: Place, word and tag of the first of them; empty without any.
        spelling: A tag as it is written and as it is read, where all are written in another way.
    """

    scheme: Written
    broken: int
    first: str
    spelling: tuple[str, str] | None = None

    def notes(self) -> list[str]:
        """What to know about it: a scheme other than IOB2, and tags that break it."""
        notes = []
        if self.spelling is not None:
            notes.append(f"tags are written like {self.spelling[0]!r}, which is read as {self.spelling[1]!r}.")
        if self.scheme == "iob1":
            notes.append(
                "the tags are IOB1: a span begins with I-, and with B- only behind another one of its type. They are "
                "read as such, and scored as IOB2."
            )
        if self.broken:
            breaks, opens = ("tags break", "each opens") if self.broken > 1 else ("tag breaks", "it opens")
            notes.append(
                f"{self.broken:,} {breaks} {self.scheme.upper()}, which all others follow (the first: {self.first}); "
                f"{opens} or ends a span as in conlleval. `scheme: {self.scheme}` (--scheme) refuses them by line."
            )
        return notes


def read_scheme(sentences: Sequence[Sentence], scheme: Scheme) -> SchemeReading:
    """How the tags of the sentences of one file or split are written. Raises as `to_iob2`, except for broken rules."""
    sentences, spellings = _respell(sentences)
    parts, pairs = _parts(sentences, scheme), Counter(chain.from_iterable(map(_pairs, sentences)))
    written = _detect(parts, pairs) if scheme == "auto" else scheme
    faults = _faults(written, parts, pairs)
    return SchemeReading(
        written,
        sum(pairs[pair] for pair in faults),
        next((where for where, _ in _broken_rules(sentences, faults)), ""),
        min(spellings.items(), key=lambda pair: (pair[1] == OUTSIDE, pair), default=None),
    )


def to_iob2(sentences: Sequence[Sentence], scheme: Scheme) -> list[Sentence]:
    """Copies of the sentences of one file or split with their tags in IOB2.

    Args:
        sentences: The sentences, in any one scheme.
        scheme: How their tags are written; `auto` means whatever `read_scheme` detects. With `io` a tag may be a bare
            type.

    Raises:
        BrokenLinesError: tags are neither `O` nor a prefix and a type, or violate a scheme that was given; names the
            word's place and the tag of each.
    """
    sentences, _ = _respell(sentences)
    parts = _parts(sentences, scheme)
    pairs = Counter(chain.from_iterable(map(_pairs, sentences)))
    if scheme != "auto":
        broken = BrokenLines()
        way_out = f"Fix the tag, or leave out `scheme`, which is `{scheme}`, to have it read as conlleval does."
        for where, rule in _broken_rules(sentences, _faults(scheme, parts, pairs)):
            broken.add(DataError(f"{where}, which {rule}. {way_out}"))
        broken.raise_if_any()
    rewritten = {(first, tag): _iob2(parts[first], parts[tag]) for first, tag in pairs}
    return [s._replace(tags=tuple(rewritten[pair] for pair in list(_pairs(s))[:-1])) for s in sentences]


def _pairs(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """Every tag with its predecessor, and the last one with the end of the sentence."""
    return pairwise((OUTSIDE, *sentence.tags, OUTSIDE))


def _respell(sentences: Sequence[Sentence]) -> tuple[Sequence[Sentence], dict[str, str]]:
    spellings = spellings_of(tag for sentence in sentences for tag in sentence.tags)
    if not spellings:
        return sentences, {}
    return [s._replace(tags=tuple(spellings.get(tag, tag) for tag in s.tags)) for s in sentences], spellings


def _parts(sentences: Sequence[Sentence], scheme: Scheme) -> dict[str, Tag]:
    """Each tag in its parts. Raises BrokenLinesError: some are no span tags."""
    tags = sorted({tag for sentence in sentences for tag in sentence.tags})
    bare = (lambda tag: Tag(OUTSIDE, "") if tag == "o" else Tag("I", tag)) if scheme == "io" else lambda tag: None
    parsed = {tag: parse_tag(tag) or bare(tag) for tag in tags}
    _refuse_bad_tags(sentences, {tag for tag, parts in parsed.items() if parts is None})
    return {tag: parts for tag, parts in parsed.items() if parts is not None} | {OUTSIDE: Tag(OUTSIDE, "")}


def _fault(scheme: Written, first: Tag, tag: Tag) -> Fault | None:
    """The rule of a scheme that a tag behind another one breaks."""
    letters, continues = _LETTERS[scheme], _continues(first, tag)
    if tag.prefix not in (OUTSIDE, *letters):
        tags = "/".join(f"{letter}-" for letter in letters)
        return Fault(1, f"is not a tag of {scheme.upper()}, whose tags are O and {tags} with a type")
    # Before the rules of the second tag: where a span is not ended, the first one is the tag to fix.
    if scheme == "bioes" and first.prefix in "BI" and not (tag.prefix in "IE" and continues):
        return Fault(0, f"is never ended by an E-{first.type} or L-{first.type}")
    if scheme in ("iob2", "bioes") and tag.prefix in "IE" and not continues:
        return Fault(1, f"has no preceding B-{tag.type}")
    if scheme == "iob1" and tag.prefix == "B" and not continues:
        return Fault(1, f"does not follow a {tag.type}, and only there does IOB1 have a B-")
    return None


def _continues(first: Tag, tag: Tag) -> bool:
    return first.prefix in "BI" and first.type == tag.type


def _iob2(first: Tag, tag: Tag) -> str:
    """A valid tag in IOB2, given its predecessor: conlleval's rule, which any scheme is read by."""
    if tag.prefix == OUTSIDE:
        return OUTSIDE
    return f"{'B' if tag.prefix in 'BS' or not _continues(first, tag) else 'I'}-{tag.type}"


Faults = dict[tuple[str, str], Fault]


def _faults(scheme: Written, parts: dict[str, Tag], pairs: Counter[tuple[str, str]]) -> Faults:
    faults = {pair: _fault(scheme, parts[pair[0]], parts[pair[1]]) for pair in pairs}
    return {pair: fault for pair, fault in faults.items() if fault is not None}


def _detect(parts: dict[str, Tag], pairs: Counter[tuple[str, str]]) -> Written:
    """The scheme with the fewest broken rules; of several, the first in this order."""
    # Where several fit, nothing depends on the choice but a note: all schemes are read by one rule.
    schemes: tuple[Written, ...] = ("iob2", "iob1", "bioes")
    counts = {scheme: sum(pairs[pair] for pair in _faults(scheme, parts, pairs)) for scheme in schemes}
    return min(schemes, key=lambda scheme: counts[scheme])


def _refuse_bad_tags(sentences: Sequence[Sentence], bad: set[str]) -> None:
    broken = BrokenLines()
    n_tags = sum(len(sentence.tags) for sentence in sentences) if bad else 0
    n_bad = sum(tag in bad for sentence in sentences for tag in sentence.tags) if bad else 0
    # Up to a tenth are slips in the right column; of more, the column is probably another one.
    others = f"; all but {n_bad:,} of {n_tags:,} are" if 0 < 10 * n_bad <= n_tags else ""
    for n, sentence in enumerate(sentences, start=1):
        for i, tag in enumerate(sentence.tags):
            if tag in bad:
                meant = meant_tag(tag)
                fix = f"Did you mean {meant!r}? Fix it" if meant else "Fix it"
                broken.add(
                    DataError(
                        f"{_where(n, sentence, i)}, which is not a span tag, i.e. O or B-/I- with a type{others}. "
                        f"{fix}, or choose the column of the tags with `columns` (--tags), or another `task`."
                    )
                )
    broken.raise_if_any()


def _broken_rules(sentences: Sequence[Sentence], faults: Faults) -> Iterator[tuple[str, str]]:
    """Place, word and tag of each broken rule, and the rule."""
    if not faults:
        return
    for n, sentence in enumerate(sentences, start=1):
        for i, pair in enumerate(_pairs(sentence)):
            if pair in faults:
                fault = faults[pair]
                yield _where(n, sentence, i - 1 + fault.place), fault.rule


def _where(number: int, sentence: Sentence, i: int) -> str:
    """The place of a word and its tag: its own line, where each word has one."""
    place, form = sentence.place_of(i) or f"sentence {number}", quote(sentence.forms[i])
    word = form if sentence.word_lines else f"word {i + 1}, {form},"
    return f"{place}: {word} has the tag {quote(sentence.tags[i])}"
