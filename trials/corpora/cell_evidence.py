"""Recognise what the cells of a column are: tags of spans (in whatever spelling), classes, or numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

OUTSIDE = "O"
LONGEST_CLASS = 60  # characters of a class's name
_MOST_CLASSES = 0.2  # largest share of different cells: a column with more of them holds no classes
SPAN_SHARE = 0.9  # smallest share of span tags in a column of spans; the others are slips, refused by line
_WRITTEN_AS = {"L": "E", "U": "S", "M": "I"}  # the letters of BILOU, and of BMES, for those of BIOES
_PREFIXES = frozenset("BIESLUM")
_slip = re.compile(r"([BIESLUMbieslum])[-_:. \u2010-\u2015](.+)")
_UNNAMED = "SPAN"  # the type of spans whose tags are letters alone
_other_ways = (
    re.compile(r"(?P<prefix>[BIESLUM])"),  # B, I: one type, no name
    re.compile(r"(?P<type>.+)[-_](?P<prefix>[BIESLUM])"),  # PER-B
    re.compile(r"(?P<prefix>[BIESLUM])[_:](?P<type>.+)"),  # B_PER
)
_small_ways = (
    re.compile(r"(?P<prefix>[bieslum])[-_:](?P<type>.+)"),  # b-per beside o or O
    *(re.compile(way.pattern.replace("BIESLUM", "bieslum")) for way in _other_ways[:2]),
)


class Tag(NamedTuple):
    """A span tag in its parts: `B-LOC` is ("B", "LOC"), `O` is ("O", "")."""

    prefix: str
    type: str


def spellings_of(tags: Iterable[str]) -> dict[str, str]:
    """How tags of spans are read that are all written in one other way: as letters without a type, with the type
    first, with another sign between the two, in small letters, or with another tag for `O`.
    """
    tags = {*tags}
    others = [tag for tag in tags if not is_span_tag(tag)]
    if OUTSIDE not in tags and len(others) == 1 and any(tag.startswith("B-") for tag in tags):
        return {others[0]: OUTSIDE}
    outside = OUTSIDE if OUTSIDE in tags else "o"
    inside = tags - {outside}
    ways = (*_other_ways, *_small_ways) if outside == OUTSIDE else (*_small_ways, _other_ways[-1])
    for way in ways if inside < tags and not any(map(is_span_tag, inside)) else ():
        if inside and all(matches := [way.fullmatch(tag) for tag in inside]):
            parts = [match.groupdict() for match in matches if match]
            read = (f"{part['prefix'].upper()}-{part.get('type', _UNNAMED)}" for part in parts)
            return dict(zip(inside, read, strict=True)) | ({} if outside == OUTSIDE else {outside: OUTSIDE})
    return {}


def is_span_tag(tag: str) -> bool:
    """Whether a tag is `O` or a prefix and a type."""
    return parse_tag(tag) is not None


def are_several_tags(cell: str) -> bool:
    """Whether a cell holds several tags of spans, with any sign between them."""
    tags = [tag for tag in re.split(r"[^\w-]+|_", cell) if tag]
    return len(tags) > 1 and all(map(is_span_tag, tags))


def meant_tag(tag: str) -> str | None:
    """The span tag that a slip such as `B_ORG`, `b-org` or `0` means; None if it is not a slip of a span tag."""
    if tag in ("0", "o", "\u041e"):  # zero, a small letter, a Cyrillic one
        return OUTSIDE
    match = _slip.fullmatch(tag)
    return f"{match[1].upper()}-{match[2]}" if match and not is_span_tag(tag) else None


def parse_tag(tag: str) -> Tag | None:
    """The parts of a tag of spans; None for another one."""
    if tag == OUTSIDE:
        return Tag(OUTSIDE, "")
    prefix, dash, kind = tag.partition("-")
    return Tag(_WRITTEN_AS.get(prefix, prefix), kind) if prefix in _PREFIXES and dash and kind else None


@dataclass(frozen=True)
class TagEvidence:
    """What the tags of a corpus look like.

    Attributes:
        spans: Share of the words whose tag is one of spans, slips like `B_ORG` included.
        has_prefixes: Whether any tag is a prefix and a type.
        outside: Share of the words with the tag `O`, or `o`.
        n_tags: How many tags there are.
    """

    spans: float
    has_prefixes: bool
    outside: float
    n_tags: int

    @classmethod
    def from_counts(cls, tags: Mapping[str, int]) -> TagEvidence:
        """The evidence of a column, from how often each tag occurs."""
        spellings, total = spellings_of(tags), sum(tags.values()) or 1
        tags = {spellings.get(tag, tag): n for tag, n in tags.items()}
        spans = sum(n for tag, n in tags.items() if is_span_tag(tag) or meant_tag(tag) is not None)
        prefixed = any(tag[1:2] == "-" and is_span_tag(tag) for tag in tags)
        outside = tags.get(OUTSIDE, tags.get(OUTSIDE.lower(), 0))
        return cls(spans / total, prefixed, outside / total, len(tags))

    @property
    def are_spans(self) -> bool:
        """Whether they are tags of spans, apart from slips."""
        return self.has_prefixes and self.spans >= SPAN_SHARE

    @property
    def unclear(self) -> bool:
        """Whether tags may be of spans or words: only some have prefixes, or several types occur with many an O."""
        mixed = self.has_prefixes and 1 - SPAN_SHARE < self.spans < SPAN_SHARE
        return mixed or (not self.has_prefixes and self.outside >= 0.5 and self.n_tags > 1)


def are_classes(cells: Sequence[str]) -> bool:
    """Whether cells are a few short ones that come again."""
    return 2 <= len({*cells}) <= max(2, _MOST_CLASSES * len(cells)) and max(map(len, cells)) <= LONGEST_CLASS


def is_number(cell: str) -> bool:
    """Whether a cell is written as a number."""
    with suppress(ValueError):
        return float(cell) is not None
    return False
