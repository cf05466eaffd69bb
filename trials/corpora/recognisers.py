"""Recognise the format of a corpus file by positive evidence, and name what reads it or what to do instead.

`RECOGNISERS` has one row per format. A file has the one format whose evidence it shows; if it shows none, or that of
several formats, the caller asks the user. To add a format, add a row.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from trials.corpora.cell_evidence import TagEvidence, are_classes, are_several_tags
from trials.corpora.column_lines import CONLLU_COLUMNS, Blocks, column_blocks, header_line, is_numbered, usual_width
from trials.corpora.column_names import KNOWN_NAMES
from trials.corpora.documents import DOCUMENT
from trials.corpora.table_rows import csv_delimiter, is_divided, objects_of, text_rows
from trials.corpora.text_file import read_lines
from trials.errors import DataError

_MOST_LINES = 20_000  # lines of a file that are looked at; quotes and separators are decided later, by all lines
_CLEAR = 0.95  # share of lines that must show the evidence, as a few broken lines should not hide a format
_LONG_BLOCK = 25  # mean lines between blank lines; longer blocks are rather texts than the words of a sentence
_LONGEST_BLOCK = 500  # mean lines between blank lines that may be sentences if nothing says that they are texts
_MOST_BEFORE = 10  # lines that may stand above a header line
_DIFFERENT = 0.8  # share of different cells in a column from which on they are texts: words repeat more often
_MANY = 100  # rows from which on a column of words would repeat some
_FEW = 10  # with fewer rows a column is not judged by how often its cells repeat
_id = re.compile(r"\d+([-.]\d+)?")
_tagged_word = re.compile(r"\S+[/|_]([A-Za-z][\w$.:+*-]*|[.,:;()'`$#-]+)")


@dataclass(frozen=True)
class Sample:
    """The file by which a corpus is recognised, with what the recognisers ask about it.

    Attributes:
        lines: Its first `_MOST_LINES` lines.
    """

    path: Path
    lines: Sequence[str]

    @cached_property
    def inside(self) -> list[str]:
        """The lines with content: neither blank, nor comments, nor starts of documents."""
        return [line for line in self.lines if line.strip() and not line.startswith(("#", DOCUMENT))]

    @cached_property
    def blocks(self) -> Blocks:
        """The lines, grouped into the blocks that blank lines separate."""
        return column_blocks(self.lines)

    @cached_property
    def tabs(self) -> list[list[str]]:
        """The tab-separated cells of each line with content."""
        return [line.split("\t") for line in self.inside]

    @cached_property
    def width(self) -> int:
        """The number of tab-separated cells that nearly all lines have; 0 if they differ, 1 if there are no tabs."""
        widths = Counter(map(len, self.tabs)).most_common(1)
        return widths[0][0] if widths and widths[0][1] >= _CLEAR * len(self.tabs) else 0

    @cached_property
    def is_conllu(self) -> bool:
        """Whether nearly all lines have the ten columns of CoNLL-U."""
        return _share(len(row) == 10 and _id.fullmatch(row[0]) for row in self.tabs) >= _CLEAR

    @cached_property
    def array(self) -> list[dict[str, Any]] | None:
        """The objects of a file that is a single JSON value; None if it is not."""
        return objects_of(self.lines)

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """The first JSON objects of the file, whether it is one value or JSON lines; empty if it is neither."""
        if self.array is not None:
            return self.array
        found = list[Any]()
        with suppress(ValueError, RecursionError):
            for line in self.inside[:20] if self.first()[:1] == "{" else ():
                found.append(json.loads(line))
        return [value for value in found if isinstance(value, dict)]

    def first(self) -> str:
        """The first line that is not blank."""
        return next((line for line in self.lines if line.strip()), "")

    def share(self, shows: Callable[[str], object]) -> float:
        """The share of lines with content for which `shows` holds."""
        return _share(map(shows, self.inside))

    def column(self, at: int) -> list[str]:
        """The cells of one tab-separated column, in the lines that have the most frequent number of columns."""
        return [row[at] for row in self.tabs if len(row) == self.width]


class Recogniser(NamedTuple):
    """How to recognise one format.

    Attributes:
        evidence: Whether a file shows that it has this format.
        shown_by: What shows it, in words, for the error message.
        reads: The registered corpus format that reads it; empty if the format is refused.
        way_out: What to do with a file of a refused format.
    """

    name: str
    evidence: Callable[[Sample], bool]
    shown_by: str
    reads: str = ""
    way_out: str = ""


def _share(flags: Iterable[object]) -> float:
    values = [bool(flag) for flag in flags]
    return sum(values) / len(values) if values else 0.0


def _has_other_columns(sample: Sample) -> bool:
    for line in takewhile(lambda line: line.startswith("#"), sample.lines):
        name, _, columns = line.partition("=")
        if name.replace(" ", "") == "#global.columns":
            return tuple(columns.lower().split()) != CONLLU_COLUMNS
    return False


def _is_conll_2012(sample: Sample) -> bool:
    rows = [line.split() for line in sample.inside[:1000]]
    brackets = _share(any(re.fullmatch(r"\(?[\w(*]*\*?\)*", cell) and "(" in cell for cell in row) for row in rows)
    numbered = _share(len(row) >= 11 and row[1].isdigit() and row[2].isdigit() for row in rows)
    return numbered >= _CLEAR and (sample.first().startswith("#begin document") or brackets > 0)


def _numbers_sentences(sample: Sample) -> bool:
    """Whether each line has a word and its tag after the number of its sentence."""
    rows = [line.split() for line in sample.inside][bool(header_line(sample.lines)) :]
    numbers = [int(row[0]) for row in rows if row[0].isdigit()]
    come_again = len(numbers) >= _CLEAR * len(rows) and 2 * len({*numbers}) <= len(numbers)
    if not come_again or numbers != sorted(numbers) or is_numbered(sample.blocks):
        return False
    width = usual_width(sample.blocks)
    return width > 2 and sum(len(row) == width for row in rows) >= _CLEAR * len(rows)


def _has_lines_before(sample: Sample) -> bool:
    """Whether a CSV file has a title or comments above its header line."""
    if ".csv" not in sample.path.suffixes or not len(sample.inside) > 1 or sample.width > 1:
        return False
    n_before = next((n for n in range(1, _MOST_BEFORE) if is_divided(sample.lines[n:])), 0)
    return n_before > 0 and not is_divided(sample.lines)


def _has_tagged_words(sample: Sample) -> bool:
    return sample.share(lambda line: len(line.split()) > 1 and all(map(_tagged_word.fullmatch, line.split()))) >= _CLEAR


def _has_a_word_a_line(sample: Sample) -> bool:
    """Whether each line has a word and its tags in columns; blank lines, tags of spans or repeated words show it."""
    blocks = sample.blocks
    rows = [line.cells for block in blocks for line in block]
    width = usual_width(blocks)
    alike = _share(len(row) == width for row in rows) >= _CLEAR or is_numbered(blocks)
    if width < 2 or not alike or sample.is_conllu or _is_a_table(sample):
        return _has_tabs_and_spaces(sample)
    if sample.path.suffix in (".csv", ".jsonl") and not any("\t" in line for line in sample.inside[:20]):
        return False
    columns = [[row[i] for row in rows if len(row) == width] for i in range(width)]
    has_spans = any(TagEvidence.from_counts(Counter(column)).are_spans for column in columns)
    are_words = sample.first()[0] not in "{[" and 2 * len({*columns[0]}) <= len(rows)  # words repeat, texts do not
    come_again = are_words and _are_classes(columns[-1])
    return _is_broken_into_sentences(sample, _LONGEST_BLOCK) or has_spans or come_again


def _has_tabs_and_spaces(sample: Sample) -> bool:
    """Whether lines are words and tags that only tabs separate, as a word or a type of span contains a space."""
    return sample.width > 1 and not _is_a_table(sample) and not sample.is_conllu and _spans_at(sample) is not None


def _spans_at(sample: Sample) -> int | None:
    """The index of the tab-separated column that holds tags of spans, one in each cell; None if there is none."""
    columns = {i: sample.column(i) for i in range(sample.width)}
    alone = {i: cells for i, cells in columns.items() if 2 * sum(map(are_several_tags, cells)) <= len(cells)}
    return next((i for i, cells in alone.items() if TagEvidence.from_counts(Counter(cells)).are_spans), None)


def _is_broken_into_sentences(sample: Sample, most: int) -> bool:
    """Whether blank lines divide the file into blocks of at most `most` lines on average, as they divide sentences."""
    blocks = [len([*block]) for full, block in groupby(sample.lines, lambda line: bool(line.strip())) if full]
    return len(blocks) > 1 and sum(blocks) <= most * len(blocks)


def _is_a_table(sample: Sample) -> bool:
    """Whether the file is a TSV table: its header names texts, cells hold several words, or texts and classes."""
    if sample.width < 2 or sample.is_conllu:
        return False
    rows = [row for row in sample.tabs if len(row) == sample.width]
    if _spans_at(sample) is not None:
        return False
    header = {cell.strip().lower() for cell in rows[0]}
    if len(header & KNOWN_NAMES) > 1 and not header_line(sample.lines):
        return True
    if _is_broken_into_sentences(sample, _LONG_BLOCK):
        return len(rows) >= _MANY and _has_texts_beside_classes([sample.column(i) for i in range(sample.width)])
    has_texts = _share(any(" " in cell.strip() for cell in row) for row in rows) >= 0.5
    return has_texts or _has_texts_beside_classes([sample.column(i) for i in range(sample.width)])


def _has_texts_beside_classes(columns: Sequence[Sequence[str]]) -> bool:
    """Whether one column's cells are nearly all different (texts, not words) and another's are a few that repeat."""
    n = len(columns[0])
    has_texts = any(len({*column}) >= _DIFFERENT * n for column in columns)
    return n >= _FEW and has_texts and any(map(_are_classes, columns))


def _are_classes(column: Sequence[str]) -> bool:
    """Whether a column holds a few short cells that repeat; a leading space means prose split at its commas."""
    return are_classes(column) and not any(cell.startswith(" ") for cell in column)


def _is_csv(sample: Sample) -> bool:
    """Whether a separator, apart from quoted ones, divides nearly all rows into the same number of cells."""
    if sample.width > 1 or _is_json_lines(sample) or sample.array is not None or not sample.inside:
        return False
    if csv_delimiter(sample.lines) == "," and "," not in sample.first() and not sample.first().startswith("sep="):
        return False
    try:
        rows = [cells for _, cells in text_rows(sample.path, "csv", sample.lines)]
    except DataError:
        return False
    most, n = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
    alike = [row for row in rows if len(row) == most]
    is_named = ".csv" in sample.path.suffixes or sample.first().startswith("sep=")
    return most > 1 and n >= _CLEAR * len(rows) and (is_named or any(map(_are_classes, zip(*alike, strict=True))))


def _is_json_lines(sample: Sample) -> bool:
    return sample.share(re.compile(r"\{.*\}\s*").fullmatch) >= _CLEAR and sample.array is None


def _are_rows_with(*names: str, any_of: Sequence[str] = ("",)) -> Callable[[Sample], bool]:
    """Evidence for JSON whose first objects all have the keys `names` and at least one of `any_of`."""

    def evidence(sample: Sample) -> bool:
        rows = sample.objects[:20]
        return bool(rows) and all({*names} <= row.keys() and ("" in any_of or {*any_of} & row.keys()) for row in rows)

    return evidence


_COLUMNS = "Write a word and its tag on each line, a tab between them, and a blank line after each sentence."
RECOGNISERS = (
    Recogniser(
        "WebAnno TSV", lambda sample: sample.share(re.compile(r"\d+-\d+\t\S").match) >= _CLEAR,
        "sentence and word before each, as 1-1",
        way_out="Export it as CoNLL 2002, which INCEpTION and WebAnno do for the layer of named entities",
    ),
    Recogniser(
        "CoNLL-U Plus", _has_other_columns, "`# global.columns` on its first line, with others than CoNLL-U's ten",
        way_out="Its first ten columns are CoNLL-U where they have these names: `cut -f1-10 FILE > OTHER/STEM.conllu`",
    ),
    Recogniser(
        "CoNLL-2012", _is_conll_2012, "eleven columns or more, the word in the fourth, and brackets for spans",
        way_out=_COLUMNS,
    ),
    Recogniser(
        "a word a line with the numbers of sentences", _numbers_sentences, "numbers in front that come again, in order",
        way_out="Put blank lines between sentences instead, into another folder: `awk '$1 != last {print \"\"} {last = "
        "$1; print $2 \"\\t\" $NF}' FILE > OTHER/STEM.tsv`",
    ),
    Recogniser(
        "CSV below other lines", _has_lines_before, "rows alike, but not from the first line on",
        way_out="Delete what stands above the names of the columns",
    ),
    Recogniser(
        "ATIS", lambda sample: sample.share(re.compile(r"BOS .* EOS\tO ").match) >= _CLEAR, "`BOS` and `EOS` a line",
        way_out="Write words and tags between tabs, into another folder: `sed -E 's/^BOS (.*) EOS\\tO (.*) \\S+$/\\1"
        "\\t\\2/' FILE > OTHER/STEM.tsv`",
    ),
    Recogniser(
        "fastText", lambda sample: sample.share(lambda line: "__label__" in line) >= _CLEAR, "`__label__` in each line",
        way_out="Write text and label between tabs, into another folder: `sed -E 's/(.*)__label__([^ ,]+)[ ,]*(.*)/"
        "\\1\\3\\t\\2/' FILE > OTHER/STEM.tsv`",
    ),
    Recogniser(
        "word/TAG", _has_tagged_words, "each word has its tag behind a slash, bar or underscore, as in spaCy's .iob",
        way_out=_COLUMNS,
    ),
    Recogniser(
        "Label Studio's JSON", _are_rows_with("data", any_of=("annotations", "completions")), "`annotations` of `data`",
        way_out="Export it as JSON-MIN or CSV where each text has a class, as CONLL2003 where words have tags",
    ),
    Recogniser(
        "Prodigy's spans or choices", _are_rows_with("answer", any_of=("spans", "options", "accept")),
        "`answer` beside `spans` or `options`",
        way_out="Write its tokens and tags a line, or text and label of what was accepted as CSV",
    ),
    Recogniser(
        "XML or HTML", lambda sample: re.match(r"\s*<(\?xml|!DOCTYPE|html|\w+>)", sample.first(), re.I) is not None,
        "its first line", way_out="Write a row per text as CSV or JSON lines, or a word and its tag a line",
    ),
    Recogniser("CoNLL-U", lambda sample: sample.is_conllu, "CoNLL-U's ten columns on each line", "conllu"),
    Recogniser("columns", _has_a_word_a_line, "one word a line and blank lines between sentences", "columns"),
    Recogniser("TSV", _is_a_table, "cells separated by tabs", "tsv"),
    Recogniser("CSV", _is_csv, "cells separated alike in all rows", "csv"),
    Recogniser("JSON lines", _is_json_lines, "one JSON object a line", "jsonl"),
    Recogniser("JSON array", lambda sample: sample.array is not None, "JSON objects in one array", "jsonl"),
)  # fmt: skip


def recognise(path: Path) -> Recogniser | None:
    """The one format whose evidence a text file shows; None if none or several fit. Raises DataError: it is refused."""
    found = matches(path)
    if len(found) != 1:
        return None
    if not found[0].reads:
        way_out = found[0].way_out.rstrip(".").replace("FILE", path.name).replace("STEM", path.name.partition(".")[0])
        raise DataError(f"{path}: this is {found[0].name} ({found[0].shown_by}), which is not read. {way_out}.")
    return found[0]


def matches(path: Path) -> Sequence[Recogniser]:
    """The recognisers whose evidence a file shows: those of refused formats if any fits, else the others."""
    return _matches(path, path.stat().st_mtime_ns, path.stat().st_size)


@lru_cache(maxsize=64)
def _matches(path: Path, _changed: int, _size: int) -> tuple[Recogniser, ...]:
    sample = Sample(path, read_lines(path)[:_MOST_LINES])
    if not sample.inside and not sample.first():
        return ()
    refused = tuple(each for each in RECOGNISERS if not each.reads and each.evidence(sample))
    return refused or tuple(each for each in RECOGNISERS if each.reads and each.evidence(sample))
