"""Convert span tags to IOB2: detect IOB1, IOB2 or BIOES (BILOU), or validate the tags against one of them or IO.

The rules are those of Tjong Kim Sang & Veenstra 1999 (IOB1, IOB2) and Ratinov & Roth 2009 (BILOU). Each rule concerns a
tag and its predecessor, so a corpus is validated by its distinct pairs of tags. All schemes are read by one rule, that
of conlleval: a B- or S- opens a span, and so does any tag that does not continue a span of its type. So where the
scheme is detected, a few tags that break it cost nothing, and are counted; a scheme that was given is enforced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from trials.datasets.columns_reader import (
    Blocks,
    column_blocks,
    header_line,
    is_empty_token,
    is_numbered,
    separator_of,
    usual_width,
)
from trials.datasets.corpus import Sentence
from trials.datasets.text_file import BrokenLines, read_lines
from trials.errors import DataError, UnclearError
from trials.escaping import quoted
from trials.settings import Columns, Scheme

Written = Literal["iob1", "iob2", "bioes", "io"]
OUTSIDE = "O"
WRITTEN_AS = {"L": "E", "U": "S", "M": "I"}  # the letters of BILOU, and of BMES, for those of BIOES


class Tag(NamedTuple):
    """A span tag in its parts: `B-LOC` is ("B", "LOC"), `O` is ("O", "")."""

    prefix: str
    type: str


class Fault(NamedTuple):
    """A violated rule in a pair of tags: `at` is 0 if the first tag is wrong, and 1 if the second is."""

    at: int
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
            notes.append(
                f"all tags of spans are written like {self.spelling[0]!r}, which is read as {self.spelling[1]!r}."
            )
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
    """How the tags of the sentences of one file or split are written. Raises as `to_iob2`, but for broken rules."""
    sentences, spellings = _respelled(sentences)
    parts, pairs = _parts(sentences, scheme), Counter(chain.from_iterable(map(_pairs, sentences)))
    written = _detect(parts, pairs) if scheme == "auto" else scheme
    faults = _faults(written, parts, pairs)
    return SchemeReading(
        written,
        sum(pairs[pair] for pair in faults),
        next((where for where, _ in _broken(sentences, faults)), ""),
        next(iter(sorted(spellings.items())), None),
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
    sentences, _ = _respelled(sentences)
    parts = _parts(sentences, scheme)
    pairs = Counter(chain.from_iterable(map(_pairs, sentences)))
    if scheme != "auto":
        broken = BrokenLines()
        way_out = f"Fix the tag, or leave out `scheme`, which is `{scheme}`, to have it read as conlleval does."
        for where, rule in _broken(sentences, _faults(scheme, parts, pairs)):
            broken.add(DataError(f"{where}, which {rule}. {way_out}"))
        broken.raise_if_any()
    rewritten = {(first, tag): _iob2(parts[first], parts[tag]) for first, tag in pairs}
    return [s._replace(tags=tuple(rewritten[pair] for pair in list(_pairs(s))[:-1])) for s in sentences]


def _pairs(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """Every tag with its predecessor, and the last one with the end of the sentence."""
    return pairwise((OUTSIDE, *sentence.tags, OUTSIDE))


# --- What a tag is

UNNAMED = "SPAN"  # the type of spans whose tags are letters alone
_other_ways = (
    (re.compile(r"([BIESLUM])()"), r"\1-" + UNNAMED),  # B, I: one type, no name
    (re.compile(r"(.+)[-_]([BIESLUM])"), r"\2-\1"),  # PER-B
    (re.compile(r"([BIESLUM])[_:](.+)"), r"\1-\2"),  # B_PER
)


def spellings_of(tags: Iterable[str]) -> dict[str, str]:
    """How tags of spans are read that are all written in one other way: as letters without a type, with the type
    first, or with another sign between the two.
    """
    tags = {*tags}
    inside = tags - {OUTSIDE}
    for way, read in _other_ways if inside < tags and not any(map(is_span_tag, inside)) else ():
        if inside and all(map(way.fullmatch, inside)):
            return {tag: way.sub(read, tag) for tag in inside}
    return {}


def _respelled(sentences: Sequence[Sentence]) -> tuple[Sequence[Sentence], dict[str, str]]:
    spellings = spellings_of(tag for sentence in sentences for tag in sentence.tags)
    if not spellings:
        return sentences, {}
    return [s._replace(tags=tuple(spellings.get(tag, tag) for tag in s.tags)) for s in sentences], spellings


def is_span_tag(tag: str) -> bool:
    """Whether a tag is `O` or a prefix and a type."""
    return _parse(tag) is not None


def meant_tag(tag: str) -> str | None:
    """The span tag that a slip like `B_ORG`, `b-org` or `0` stands for; None if it stands for none."""
    if tag in ("0", "o", "\u041e"):  # zero, a small letter, a Cyrillic one
        return OUTSIDE
    match = re.fullmatch(r"([BIESLUMbieslum])[-_:. \u2010-\u2015](.+)", tag)
    return f"{match[1].upper()}-{match[2]}" if match and not is_span_tag(tag) else None


def _parse(tag: str) -> Tag | None:
    prefix, dash, kind = tag.partition("-")
    if tag == OUTSIDE:
        return Tag(OUTSIDE, "")
    return Tag(WRITTEN_AS.get(prefix, prefix), kind) if prefix in set("BIESLUM") and dash and kind else None


def _parts(sentences: Sequence[Sentence], scheme: Scheme) -> dict[str, Tag]:
    """Each tag in its parts. Raises BrokenLinesError: some are no span tags."""
    tags = sorted({tag for sentence in sentences for tag in sentence.tags})
    parsed = {tag: _parse(tag) or (Tag("I", tag) if scheme == "io" else None) for tag in tags}
    _refuse_bad_tags(sentences, {tag for tag, parts in parsed.items() if parts is None})
    return {tag: parts for tag, parts in parsed.items() if parts is not None} | {OUTSIDE: Tag(OUTSIDE, "")}


# --- Rules


def _io(first: Tag, tag: Tag) -> Fault | None:
    del first
    return Fault(1, "is not a tag of IO, whose tags are O and I- with a type") if tag.prefix in "BES" else None


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


RULES: dict[Written, Callable[[Tag, Tag], Fault | None]] = {
    "iob1": _iob1, "iob2": _iob2_rule, "bioes": _bioes, "io": _io,
}  # fmt: skip


def _iob2(first: Tag, tag: Tag) -> str:
    """A valid tag in IOB2, given its predecessor: conlleval's rule, which any scheme is read by."""
    if tag.prefix == OUTSIDE:
        return OUTSIDE
    return f"{'B' if tag.prefix in 'BS' or not _continues(first, tag) else 'I'}-{tag.type}"


Faults = dict[tuple[str, str], Fault]


def _faults(scheme: Written, parts: dict[str, Tag], pairs: Counter[tuple[str, str]]) -> Faults:
    faults = {pair: RULES[scheme](parts[pair[0]], parts[pair[1]]) for pair in pairs}
    return {pair: fault for pair, fault in faults.items() if fault is not None}


def _detect(parts: dict[str, Tag], pairs: Counter[tuple[str, str]]) -> Written:
    """The scheme with the fewest broken rules; of several, the first in this order."""
    schemes: tuple[Written, ...] = ("iob2", "iob1", "bioes")
    counts = {scheme: sum(pairs[pair] for pair in _faults(scheme, parts, pairs)) for scheme in schemes}
    return min(schemes, key=lambda scheme: counts[scheme])


def _refuse_bad_tags(sentences: Sequence[Sentence], bad: set[str]) -> None:
    broken = BrokenLines()
    n_tags = sum(len(sentence.tags) for sentence in sentences) if bad else 0
    n_bad = sum(tag in bad for sentence in sentences for tag in sentence.tags) if bad else 0
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


def _broken(sentences: Sequence[Sentence], faults: Faults) -> Iterator[tuple[str, str]]:
    """Place, word and tag of each broken rule, and the rule."""
    if not faults:
        return
    for n, sentence in enumerate(sentences, start=1):
        for i, pair in enumerate(_pairs(sentence)):
            if pair in faults:
                fault = faults[pair]
                yield _where(n, sentence, i - 1 + fault.at), fault.rule


def _where(number: int, sentence: Sentence, i: int) -> str:
    """The place of a word and its tag: its own line, where each word has one."""
    place, form = sentence.place_of(i) or f"sentence {number}", quoted(sentence.forms[i])
    word = form if sentence.word_lines else f"word {i + 1}, {form},"
    return f"{place}: {word} has the tag {quoted(sentence.tags[i])}"


# Which columns of a column file hold the words and their tags, by what all of its lines hold.

SPAN_SHARE = 0.9  # of the tags of a column of spans; the others are slips, which are refused by their lines
_MOST_TAGS = 200  # the largest tag sets, those of CoNLL-2009's Czech apart, have fewer
_PLACEHOLDERS = frozenset("_-*")  # a column without content


@dataclass(frozen=True)
class TagEvidence:
    """What the tags of a corpus look like.

    Attributes:
        spans: Share of the words whose tag is one of spans, slips like `B_ORG` included.
        has_prefixes: Whether any tag is a prefix and a type.
        outside: Share of the words with the tag `O`.
        n_tags: How many tags there are.
    """

    spans: float
    has_prefixes: bool
    outside: float
    n_tags: int

    @classmethod
    def of(cls, tags: Mapping[str, int]) -> TagEvidence:
        """From how often each tag occurs."""
        spellings, total = spellings_of(tags), sum(tags.values()) or 1
        tags = {spellings.get(tag, tag): n for tag, n in tags.items()}
        spans = sum(n for tag, n in tags.items() if is_span_tag(tag) or meant_tag(tag) is not None)
        prefixed = any(tag[1:2] == "-" and is_span_tag(tag) for tag in tags)
        return cls(spans / total, prefixed, tags.get("O", 0) / total, len(tags))

    @property
    def are_spans(self) -> bool:
        """Whether they are tags of spans, apart from slips."""
        return self.has_prefixes and self.spans >= SPAN_SHARE

    @property
    def unclear(self) -> bool:
        """Whether they may be either: some tags of spans among others, or types without prefixes beside many an O."""
        mixed = self.has_prefixes and 1 - SPAN_SHARE < self.spans < SPAN_SHARE
        return mixed or (not self.has_prefixes and self.outside >= 0.5 and self.n_tags > 1)


def find_positions(path: Path, given: Columns | None) -> tuple[Columns, list[str]]:
    """The positions of words and tags that are not given, and a sentence on each that is not the reader's default.

    Raises:
        UnclearError: Several columns may hold the tags.
        DataError: The file cannot be read.
    """
    columns = given or Columns()
    if columns.tokens is not None and columns.tags is not None:
        return columns, []
    lines = read_lines(path)
    blocks = column_blocks(lines, columns.tags if isinstance(columns.tags, int) else -1)
    width, notes = usual_width(blocks), list[str]()
    if header := header_line(lines):
        notes.append(f"the first line names the columns ({', '.join(header)}) and is no sentence")
    separator, leads = separator_of(lines)
    if leads:
        notes.append("each line begins with a space or tab, which is left out")
    if separator.pattern == "\t":
        notes.append("only tabs separate the columns, as cells hold spaces")
    if n := sum(is_empty_token(separator.split(line)) for line in lines):
        notes.append(f"{n:,} lines without a word (as Label Studio writes them) are left out")
    first = 0
    if given is None and width == 2 and _tag_comes_first(blocks):
        notes.append("each line has the tag first, and then the word (--words and --tags for others)")
        return Columns(tokens=1, tags=0), notes
    if columns.tokens is None and width > 2 and is_numbered(blocks):
        first = 1
        columns = columns.model_copy(update={"tokens": 1})
        notes.append("column 0 numbers the words of each sentence, so the words are column 1 (--words for another)")
    if columns.tags is None and (tags := _tags(path, blocks, width, first, columns)) is not None:
        columns = columns.model_copy(update={"tags": tags})
        notes.append(f"the tags are column {tags} (--tags for another)")
    return columns, notes


def _tag_comes_first(blocks: Blocks) -> bool:
    first, second = (
        TagEvidence.of(Counter(line.cells[at] for block in blocks for line in block if len(line.cells) == 2))
        for at in (0, 1)
    )
    return first.are_spans and not second.are_spans


@dataclass(frozen=True)
class _ColumnValues:
    at: int
    values: Mapping[str, int]

    @property
    def tags(self) -> TagEvidence:
        return TagEvidence.of(self.values)

    @property
    def types(self) -> set[str]:
        return {value[2:] for value in self.values if value[1:2] == "-"}

    @property
    def n_in_spans(self) -> int:
        return sum(n for value, n in self.values.items() if value[1:2] == "-")

    def may_be_tags(self, n_words: int) -> bool:
        """Whether its values look like a tag set: few, not all a placeholder, and no numbers of heads."""
        if not 2 <= len(self.values) <= min(_MOST_TAGS, max(2, n_words // 2)) or set(self.values) <= _PLACEHOLDERS:
            return False
        return sum(n for value, n in self.values.items() if value.isdigit() or value in _PLACEHOLDERS) < n_words / 2


def _tags(path: Path, blocks: Blocks, width: int, first: int, columns: Columns) -> int | None:
    """The position of the tags; None for the last column, the reader's default."""
    last = width - 1
    if width - first <= 2:
        return None
    tokens = columns.tokens if isinstance(columns.tokens, int) else first
    rows = [line.cells for block in blocks for line in block if len(line.cells) >= width]
    candidates = [
        _ColumnValues(at, Counter(row[at] for row in rows)) for at in range(width) if at >= first and at != tokens
    ]
    spans = [column for column in candidates if column.tags.are_spans]
    if any(column.at == last for column in spans):
        return _outer(spans, last) if first else None
    if len(spans) == 1:
        return spans[0].at
    likely = spans or [column for column in candidates if column.may_be_tags(len(rows))]
    if any(column.at == last for column in likely) and not first:
        return None
    if len(likely) == 1:
        return likely[0].at
    if not likely or (not first and candidates[-1].may_be_tags(len(rows))):
        return None
    question = f"{path}: which column holds the tags? {_listed(likely)}."
    raise UnclearError(question, [{"words": tokens, "tags": column.at} for column in likely])  # of as many values


def _outer(spans: Sequence[_ColumnValues], last: int) -> int | None:
    """Of nested annotation the outer spans, as in GermEval 2014: the inner ones have no other types and are fewer."""
    inner = spans[-1]
    outer = [
        column for column in spans[:-1] if inner.types <= column.types and 2 * inner.n_in_spans < column.n_in_spans
    ]
    return outer[-1].at if outer and inner.at == last else None


def _listed(columns: Sequence[_ColumnValues]) -> str:
    shown = (f"{c.at} ({', '.join(quoted(value) for value in list(c.values)[:3])}, ...)" for c in columns)
    return f"Several may: {'; '.join(shown)}"


def misc_tags(lines: Sequence[str]) -> list[str]:
    """The names of tags of spans in the last column of a treebank, as `name=B-PER`."""
    found = dict[str, Counter[str]]()
    for line in lines:
        if "=B-" in line or "=I-" in line or "=O" in line or "=S-" in line:
            for part in line.rpartition("\t")[2].split("|"):
                name, _, value = part.partition("=")
                found.setdefault(name, Counter())[value] += 1
    return [
        name for name, values in found.items() if TagEvidence.of(values).spans == 1 and TagEvidence.of(values).are_spans
    ]
