"""How the files of a corpus are read, by their suffix and by what all of their lines hold: format and columns."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from trials.datasets.corpus import CORPUS_FORMATS, DOCUMENT
from trials.datasets.schemes import TagEvidence, guess_positions
from trials.datasets.table_evidence import NO_PAIR, document_column, guess_columns
from trials.datasets.table_reader import csv_delimiter
from trials.datasets.text_file import read_lines, split_of_suffix
from trials.errors import DataError
from trials.settings import Columns, Files

FORMATS = {
    ".conllu": "conllu", ".txt": "columns", ".bio": "columns", ".iob": "columns", ".iob2": "columns",
    ".conll": "columns", ".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet",
}  # fmt: skip
# Suffixes of files that are taken where no file has one of the others.
MORE_FORMATS = {
    ".json": "jsonl", ".ndjson": "jsonl", ".tab": "tsv", ".conllx": "columns", ".conll09": "columns", ".ner": "columns",
    ".bioes": "columns", ".iobes": "columns", ".bilou": "columns", ".bmes": "columns", ".tags": "columns",
}  # fmt: skip
TABLES = ("tsv", "csv", "jsonl", "parquet")
_CLEAR = 0.95  # of a file's lines fit a format: it is that
_POOR = 0.5  # fewer fit: it may be another one
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_FEW = 10  # lines, too few to say what a file is
_SOME = 200  # lines that mostly decide
_ID = re.compile(r"\d+([-.]\d+)?")


@dataclass(frozen=True)
class Layout:
    """How the files of a corpus are read.

    Attributes:
        format: A registered corpus format.
        columns: The columns; without any, the format's own.
        notes: What was taken that a person may not expect; a sentence each.
    """

    format: str
    columns: Columns
    notes: tuple[str, ...] = ()


def layout_of(
    files: Files,
    format_: str | None,
    given: Columns | None,
    task: Columns | None,
    all_files: Files,
    *,
    looks_for_pair: bool = False,
) -> Layout:
    """How some files are read.

    Args:
        files: Those of the train split, which decide.
        format_: The format, where somebody has said it.
        given: The columns that somebody has said.
        task: The columns of the task's tables: with a text, or with tokens; None if the task is not known.
        all_files: Those of all splits, whose suffixes must agree.
        looks_for_pair: Whether a second text is looked for where a text and its label are given.

    Raises:
        ConfigError: Nobody can say which column is which.
        DataError: The files are in several formats, or of none that is known.
    """
    notes = list[str]()
    path, is_read = Path(files[0]), _is_readable(files[0])
    if format_ is None:
        format_ = _common_format(all_files)
        if is_read:
            format_, notes = _format(path, format_, given, task)
    if not is_read and format_ != "parquet":  # the reader says why
        return layout_by_name(format_, given, task, all_files)
    if format_ == "columns":
        columns, more = guess_positions(path, given)
        return Layout(format_, columns, (*notes, *more))
    if format_ not in TABLES:
        return Layout(format_, given or Columns(), tuple(notes))
    if task is None and given is None:
        return Layout(format_, Columns(), tuple(notes))
    columns, more = _of_table(path, format_, given or Columns(), task or Columns(), looks_for_pair)
    if columns.document == NO_PAIR:
        columns = columns.model_copy(update={"document": None})
    elif columns.document is None and (named := document_column(format_, columns, [path, *map(Path, all_files)])):
        columns = columns.model_copy(update={"document": named})
        more.append(f"documents by column {named!r} (--document for another, or {NO_PAIR})")
    return Layout(format_, columns, (*notes, *more))


def layout_by_name(format_: str | None, given: Columns | None, task: Columns | None, all_files: Files) -> Layout:
    """How files are read by what is given, their suffixes and the task. Raises as `layout_of`."""
    format_ = format_ or _common_format(all_files)
    default = (task if format_ in TABLES else None) or Columns()
    if given is not None and given.model_copy(update={"document": None}) != Columns():
        return Layout(format_, given)
    return Layout(format_, default.model_copy(update={"document": given.document if given else None}))


def _is_readable(path: str) -> bool:
    if path.endswith(".parquet") or not Path(path).is_file():
        return False
    try:
        read_lines(Path(path))
    except DataError:
        return False
    return True


def _of_table(
    path: Path, format_: str, given: Columns, task: Columns, looks_for_pair: bool
) -> tuple[Columns, list[str]]:
    """The columns of a table: those given, and those of the task, of known names or contents for what is not."""
    separator = csv_delimiter(read_lines(path)) if format_ == "csv" else ","
    notes = [f"the cells are separated by {_SEPARATORS[separator]}"] if separator != "," else []
    is_whole = given.label is not None if given.text is not None else None not in (given.tokens, given.tags)
    if is_whole and not (looks_for_pair and given.text is not None):
        return given, notes  # the reader checks them
    columns, more = guess_columns(path, format_, given, task)
    return columns, [*notes, *more]


def _format(path: Path, by_suffix: str, given: Columns | None, task: Columns | None) -> tuple[str, list[str]]:
    """The format of a file, that of its suffix unless its lines clearly have another one."""
    asks_texts = any(columns is not None and columns.text not in (None, "text") for columns in (given, task))
    format_ = _by_lines(path, by_suffix, asks_texts, path.stat().st_mtime_ns)
    if format_ == by_suffix:
        return format_, []
    reason = {
        "columns": "one word a line and blank lines between sentences", "conllu": "CoNLL-U's ten columns on each line",
        "tsv": "cells separated by tabs", "csv": "cells separated by commas", "jsonl": "one JSON object a line",
    }[format_]  # fmt: skip
    return format_, [f"format {format_}, as {path.name} has {reason} (--format for another)"]


@lru_cache(maxsize=64)
def _by_lines(path: Path, by_suffix: str, asks_texts: bool, _changed: int) -> str:
    lines = read_lines(path)
    if by_suffix in ("tsv", "csv") and not asks_texts and _has_a_word_a_line(lines):
        return "columns"
    some = lines[:_SOME]
    if by_suffix == "columns" and _fits_conllu(some) >= _POOR and _fits_conllu(lines) >= _CLEAR:
        return "conllu"
    if by_suffix == "columns" and _fits_tsv(lines) >= _CLEAR and _has_texts(lines):
        return "tsv"
    if by_suffix not in _FITS or by_suffix == "conllu" or _FITS[by_suffix](lines) >= _POOR:
        return by_suffix
    format_ = next((name for name, fits in _FITS.items() if fits(lines) >= _CLEAR), by_suffix)
    if format_ == by_suffix == "columns" and len(lines) >= _FEW and all(line.strip() for line in lines):
        widths = sorted(len(line.split()) for line in lines)
        raise DataError(
            f"{path}: its lines hold {widths[0]:,} to {widths[-1]:,} words each, so they are no word and tag "
            "and no text and label between tabs. Write one of these, or say what it is with `format` (--format)."
        )
    return format_


def _has_a_word_a_line(lines: Sequence[str]) -> bool:
    """Whether a table of cells between tabs is a column file: single words, and blank lines or tags of spans."""
    inside = [line for line in lines if line.strip() and not line.startswith("#") and not line.startswith(DOCUMENT)]
    rows = [line.split("\t") for line in inside]
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    if width < 2 or _share(len(row) == width for row in rows) < _CLEAR:
        return False
    if _share(all(" " not in cell.strip() for cell in row) for row in rows) < _CLEAR:
        return False
    last = max((n for n, line in enumerate(lines) if line.strip()), default=0)
    if any(not line.strip() or line.startswith(DOCUMENT) for line in lines[:last]):
        return True
    columns = (Counter(row[at] for row in rows if len(row) == width) for at in range(width))
    return any(TagEvidence.of(values).are_spans for values in columns)


def _has_texts(lines: Sequence[str]) -> bool:
    """Whether cells between tabs hold several words, without a blank line that would end a sentence."""
    rows = [line.split("\t") for line in lines]
    return (
        all(line.strip() for line in lines)
        and _share(any(" " in cell.strip() for cell in row) for row in rows) >= _POOR
    )


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / len(values) if values else 0.0


def _fits_conllu(lines: Sequence[str]) -> float:
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    return _share(len(row) == 10 and _ID.fullmatch(row[0]) is not None for row in rows)


def _fits_columns(lines: Sequence[str]) -> float:
    """Needs blank lines, but for a file that a suffix says is one."""
    rows = [line.split() for line in lines if line.strip() and not line.startswith(("#", DOCUMENT))]
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    return _share(len(row) == width > 1 for row in rows)


def _fits_tsv(lines: Sequence[str]) -> float:
    widths = Counter(line.count("\t") for line in lines if line.strip())
    most, n = widths.most_common(1)[0] if widths else (0, 0)
    return n / sum(widths.values()) if most else 0.0


def _fits_csv(lines: Sequence[str]) -> float:
    try:
        rows = [*csv.reader((line + "\n" for line in lines), delimiter=csv_delimiter(lines))]
    except csv.Error:
        return 0.0
    widths = Counter(len(row) for row in rows if row)
    most, n = widths.most_common(1)[0] if widths else (0, 0)
    return n / sum(widths.values()) if most > 1 else 0.0


def _fits_jsonl(lines: Sequence[str]) -> float:
    return _share(line.startswith("{") and line.rstrip().endswith("}") for line in lines if line.strip())


_FITS: dict[str, Callable[[Sequence[str]], float]] = {
    "conllu": _fits_conllu, "jsonl": _fits_jsonl, "tsv": _fits_tsv, "columns": _fits_columns, "csv": _fits_csv,
}  # fmt: skip


def _common_format(paths: Files) -> str:
    formats = {format_of(path): path for path in paths}
    if len(formats) > 1:
        listed = ", ".join(f"{path} ({name})" for name, path in formats.items())
        raise DataError(f"the files of one corpus are in several formats: {listed}. Give `format`.")
    return next(iter(formats))


def format_of(path: str) -> str:
    """The format that a file's name says. Raises DataError."""
    name = Path(path.removesuffix(".gz"))
    if format_ := (FORMATS | MORE_FORMATS).get(name.suffix.lower()):
        return format_
    if split_of_suffix(name.name):  # eng.train, eng.testa: CoNLL-2003 as first published
        return "columns"
    raise DataError(
        f"{path}: its name does not say its format. Give `format`: {', '.join(CORPUS_FORMATS)}; or end the name in "
        f"{', '.join(FORMATS)}."
    )
