"""Which columns of a column file hold the words and their tags, by what all of its lines hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trials.datasets.columns_reader import Blocks, column_blocks, header_line, is_numbered, usual_width
from trials.datasets.schemes import is_span_tag, meant_tag
from trials.datasets.text_file import read_lines
from trials.errors import ConfigError
from trials.escaping import quoted
from trials.settings import Columns

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
        total = sum(tags.values()) or 1
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


def guess_positions(path: Path, given: Columns | None) -> tuple[Columns, list[str]]:
    """The positions of words and tags that are not given, and a sentence on each that is not the reader's default.

    Raises:
        ConfigError: Several columns may hold the tags.
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
    first = 0
    if given is None and width == 2 and _tag_comes_first(blocks):
        return Columns(tokens=1, tags=0), [
            *notes,
            "each line has the tag first, and then the word (--words and --tags for others)",
        ]
    if columns.tokens is None and width > 2 and is_numbered(blocks):
        first = 1
        columns = replace_columns(columns, tokens=1)
        notes.append("column 0 numbers the words of each sentence, so the words are column 1 (--words for another)")
    if columns.tags is None and (tags := _tags(path, blocks, width, first, columns)) is not None:
        columns = replace_columns(columns, tags=tags)
        notes.append(f"the tags are column {tags} (--tags for another)")
    return columns, notes


def _tag_comes_first(blocks: Blocks) -> bool:
    first, second = (
        TagEvidence.of(Counter(line.cells[at] for block in blocks for line in block if len(line.cells) == 2))
        for at in (0, 1)
    )
    return first.are_spans and not second.are_spans


def replace_columns(columns: Columns, **changes: str | int | None) -> Columns:
    """The columns with other values of some keys."""
    return columns.model_copy(update=changes)


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
    words = columns.tokens if isinstance(columns.tokens, int) else first
    rows = [line.cells for block in blocks for line in block if len(line.cells) >= width]
    found = [_ColumnValues(at, Counter(row[at] for row in rows)) for at in range(width) if at >= first and at != words]
    spans = [column for column in found if column.tags.are_spans]
    if any(column.at == last for column in spans):
        return _outer(spans, last) if first else None
    if len(spans) == 1:
        return spans[0].at
    likely = spans or [column for column in found if column.may_be_tags(len(rows))]
    if any(column.at == last for column in likely) and not first:
        return None
    if len(likely) == 1:
        return likely[0].at
    if not likely or (not first and found[-1].may_be_tags(len(rows))):
        return None
    raise ConfigError(f"{path}: which column holds the tags? {_listed(likely)}. Say it with --tags NUMBER (in a sweep "
                      f"file `columns: {{tokens: {words}, tags: {likely[0].at}}}`).")  # fmt: skip


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
