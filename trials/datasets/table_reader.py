"""Read tables: TSV, CSV, JSON and Parquet, one text or sentence per row.

A row is a labelled text if `columns.text` is given, a sentence if `columns.tokens` is. Formats with named columns need
names in `columns`, or paths (such as data.text) of what objects in cells hold; a TSV or CSV file whose columns are
given by position has no header line. A header line that comes again is no row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from trials.datasets.corpus import CORPUS_FORMATS, Sentence, Text
from trials.datasets.table_rows import Cells, JsonRow, flat, json_rows, parquet_rows, printed_list, text_rows
from trials.datasets.text_file import convert_all, read_lines
from trials.errors import DataError, unknown
from trials.escaping import composed, quoted
from trials.settings import Columns

# Validation of `columns` against what a file format has.


def check_keys(path: Path, columns: Columns, holder: str, *keys: str) -> None:
    """Refuse keys of `columns` that files of this format do not have. Raises DataError."""
    for key, value in columns:
        if value is not None and key not in keys:
            use = f"It takes {' and '.join(keys)}." if keys else "Leave it out."
            raise DataError(f"{path}: columns.{key}: {holder} has no such column. {use}")


# Convert the rows of a table to texts or sentences.

ItemT = TypeVar("ItemT", Sentence, Text)
TEXT_KEYS = ("text", "pair", "label")
SENTENCE_KEYS = ("tokens", "tags")
DOCUMENT_KEY = "document"


class Row(NamedTuple):
    """The used cells of a row.

    Attributes:
        place: `file:line` or `file:row`, for error messages.
        cells: The cell for each key of `Columns`.
    """

    place: str
    cells: Mapping[str, Any]


@dataclass(frozen=True)
class TableColumns:
    """Which columns to read, all by name or all by position.

    Attributes:
        names: Column name of each key, if columns are given by name.
        positions: Column of each key from 0 (-1 is the last), if columns are given by position.
    """

    path: Path
    names: Mapping[str, str]
    positions: Mapping[str, int]

    @property
    def by_position(self) -> bool:
        """Whether columns are given by position; then the file has no header line."""
        return bool(self.positions)

    @property
    def texts(self) -> bool:
        """Whether a row is a text, not a sentence."""
        return "text" in {*self.names, *self.positions}

    def refuse_positions(self) -> None:
        """Raise DataError if columns are given by position in a format with named columns."""
        for key, position in self.positions.items():
            raise DataError(f"{self.path}: columns.{key}: this format's columns have names; give one for {position}.")

    def places_of(self, place: str, first: list[str]) -> dict[str, int]:
        """The position of each key's column.

        Args:
            place: `file:line` of the first row, for messages.
            first: The first row: the header, if columns are given by name.

        Raises:
            DataError: the header lacks a name or has it twice, or the row is shorter than a position.
        """
        for key, name in self.names.items():
            if name not in first:
                raise DataError(f"{place}: columns.{key}: {unknown(name, first, in_file=True)}")
            if first.count(name) > 1:
                raise DataError(f"{place}: columns.{key}: the header has {name!r} twice. Rename one.")
        for key, position in self.positions.items():
            if not -len(first) <= position < len(first):
                raise DataError(f"{place}: columns.{key}: there is no column {position}, a row has {len(first)}.")
        return {key: first.index(name) for key, name in self.names.items()} | dict(self.positions)


def table_columns(path: Path, columns: Columns) -> TableColumns:
    """The columns to read according to `columns`.

    Raises:
        DataError: it names neither texts nor words, lacks their labels, has both, or mixes names and positions.
    """
    if columns.text is None and columns.tokens is None:
        raise DataError(
            f"{path}: a table does not say what its columns hold. Give `columns`: text and label, or tokens and tags."
        )
    keys = TEXT_KEYS if columns.text is not None else SENTENCE_KEYS
    holder = "a table of texts" if columns.text is not None else "a table of sentences"
    check_keys(path, columns, holder, *keys, DOCUMENT_KEY)
    if getattr(columns, keys[-1]) is None:
        raise DataError(f"{path}: columns.{keys[-1]}: not given, and a row needs it beside {keys[0]}.")
    asked = {key: value for key in (*keys, DOCUMENT_KEY) if (value := getattr(columns, key)) is not None}
    names = {key: value for key, value in asked.items() if isinstance(value, str)}
    if names and len(names) < len(asked):
        listed = ", ".join(f"{key}: {value}" for key, value in asked.items())
        raise DataError(f"{path}: columns: {listed} mixes names and positions. Give all by name or all by position.")
    return TableColumns(path, names, {} if names else asked)


LazyRow = Callable[[], Row]  # raises DataError if the row could not be read


def items(asked: TableColumns, rows: Iterable[LazyRow]) -> list[Sentence] | list[Text]:
    """The rows as texts or sentences.

    Raises:
        BrokenLinesError: rows cannot be read, or cells are empty or of the wrong kind; names each one's place.
    """
    if asked.texts:
        return convert_all(lambda row: _text(row()), rows)
    return convert_all(lambda row: _sentence(row()), rows)


def _text(row: Row) -> Text:
    pair = _string(row, "pair") if "pair" in row.cells else None
    return Text(_string(row, "text"), pair, _label(row), row.place, _document(row))


def _string(row: Row, key: str) -> str:
    value = row.cells[key]
    if not isinstance(value, str):
        raise DataError(f"{row.place}: the {key} is {quoted(value)}, not a string. Fix or delete this row.")
    if not value.strip():
        raise DataError(f"{row.place}: the {key} is empty. Fix or delete this row.")
    return _clean(row, key, value)


def _clean(row: Row, key: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:  # half a surrogate pair, which JSON can write but no tokenizer can read
        raise DataError(f"{row.place}: the {key} is not Unicode text ({error.reason}). Fix this row.") from error
    return composed(value)


def _label(row: Row) -> str:
    """A class's name, or a number in its shortest form: 1 and 1.0 are "1"; a string is unchanged, and a list of one is
    what it holds. Empty where there is none.
    """
    value = row.cells["label"]
    if isinstance(value, list) and len(value) < 2:
        value = value[0] if value else None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return _clean(row, "label", value)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        raise DataError(
            f"{row.place}: the label is {quoted(value)}, neither a string nor a number. Fix or delete this row."
        )
    return str(int(value)) if value == int(value) else str(value)


def _sentence(row: Row) -> Sentence:
    """Words and tags in lists, in lists that are printed into both cells, or between single spaces."""
    both = [row.cells[key] for key in SENTENCE_KEYS]
    lists = [printed_list(cell) if isinstance(cell, str) else None for cell in both]
    apart = [cell.split(" ") if isinstance(cell, str) else cell for cell in both]
    tokens, tags = map(partial(_strings, row), SENTENCE_KEYS, apart if None in lists else lists)
    if len(tokens) != len(tags):
        raise DataError(f"{row.place}: {len(tokens)} tokens but {len(tags)} tags. Fix or delete this row.")
    return Sentence(tokens, tags, row.place, document=_document(row))


def _document(row: Row) -> str | None:
    """What its cell names; an empty cell names none."""
    value = row.cells.get(DOCUMENT_KEY)
    return None if value is None or value == "" or value != value else str(value)


def _strings(row: Row, key: str, values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not values:
        raise DataError(f"{row.place}: the {key} are {quoted(values)}, not a list of strings. Fix or delete this row.")
    for number, word in enumerate(values, start=1):
        is_id = key == "tags" and isinstance(word, int) and not isinstance(word, bool)
        if not is_id and not (isinstance(word, str) and word):
            raise DataError(f"{row.place}: number {number} of the {key} is {quoted(word)}. Fix or delete this row.")
    return tuple(_clean(row, key, str(word)) for word in values)


@CORPUS_FORMATS.register("tsv")
def read_tsv(path: Path, columns: Columns, first: int | None = None) -> list[Sentence] | list[Text]:
    """The rows of a file whose cells are separated by tabs; quoted where all of the file shows it.

    Words and tags inside a cell are separated by single spaces, or are a printed list.

    Raises:
        DataError: the file, its header or a row does not fit `columns`; names file and line.
    """
    return _read_text_table(path, "tsv", columns)[:first]


@CORPUS_FORMATS.register("csv")
def read_csv(path: Path, columns: Columns, first: int | None = None) -> list[Sentence] | list[Text]:
    """The rows of a file whose cells are separated by commas and quoted where they hold a comma, a quote or a line end.

    Where commas do not divide all lines alike and semicolons, tabs or bars do, these separate the cells.

    Words and tags inside a cell are separated by single spaces, or are a printed list.

    Raises:
        DataError: the file, its header or a row does not fit `columns`; names the line a row starts at.
    """
    return _read_text_table(path, "csv", columns)[:first]


@CORPUS_FORMATS.register("jsonl")
def read_jsonl(path: Path, columns: Columns, first: int | None = None) -> list[Sentence] | list[Text]:
    """The objects of a file, one per line or in an array; words and tags are lists of strings, labels strings or
    numbers.

    Raises:
        DataError: a line is not a JSON object or does not fit `columns`; names file and line.
    """
    asked = table_columns(path, columns)
    asked.refuse_positions()
    return items(asked, (partial(_json_row, row, asked) for row in islice(json_rows(path, read_lines(path)), first)))


@CORPUS_FORMATS.register("parquet")
def read_parquet(path: Path, columns: Columns, first: int | None = None) -> list[Sentence] | list[Text]:
    """The rows of a Parquet file; words and tags are lists, labels strings or numbers.

    Raises:
        DataError: the file is broken or not what `columns` says; names file and row, counted from 1.
    """
    asked = table_columns(path, columns)
    asked.refuse_positions()
    return items(asked, islice(_parquet_rows(path, asked), first))


def _read_text_table(path: Path, format_: str, columns: Columns) -> list[Sentence] | list[Text]:
    asked = table_columns(path, columns)
    return items(asked, _text_rows(path, asked, text_rows(path, format_, read_lines(path))))


def _text_rows(path: Path, asked: TableColumns, rows: Iterator[Cells]) -> Iterator[LazyRow]:
    """The used cells of every row; the first row is the header if columns are given by name."""
    first = next(rows, None)
    if first is None:
        return
    number, header = first
    places = asked.places_of(f"{path}:{number}", header)
    whose = "the first row" if asked.by_position else "the header"

    def row_at(n: int, row: Sequence[str]) -> Row:
        if len(row) != len(header):
            count = "one column" if len(row) == 1 else f"{len(row)} columns"
            raise DataError(f"{path}:{n}: a row has {count}, {whose} has {len(header)}. Fix this row.")
        return Row(f"{path}:{n}", {key: row[at] for key, at in places.items()})

    rest = chain([first], rows) if asked.by_position else (row for row in rows if row[1] != header)
    yield from (partial(row_at, *row) for row in rest)


def _json_row(row: JsonRow, asked: TableColumns) -> Row:
    value: Any = row.value
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{row.place}: not JSON ({error}). Each line holds one object.") from error
        if not isinstance(value, dict):
            kind = type(value).__name__
            raise DataError(f"{row.place}: a line holds one JSON object, not {kind}. Fix this line.")
    names = {*asked.names.values()}
    found: Mapping[str, Any] = value if names <= value.keys() else flat(value)
    for key, name in asked.names.items():
        if name not in found:
            raise DataError(f"{row.place}: columns.{key}: {unknown(name, found, in_file=True)}")
    cells = {key: found[name] for key, name in asked.names.items()}
    answer = found.get("answer")  # of Prodigy: a label that was rejected is none
    if "label" in cells and (answer == "ignore" or (answer == "reject" and asked.names["label"] != "answer")):
        cells["label"] = None
    return Row(row.place, cells)


def _parquet_rows(path: Path, asked: TableColumns) -> Iterator[LazyRow]:
    for whole in islice(parquet_rows(path), 1):
        asked.places_of(str(path), [*flat(whole)])
    for number, row in enumerate(map(flat, parquet_rows(path, [*asked.names.values()])), start=1):
        yield partial(Row, f"{path}:row {number}", {key: row[name] for key, name in asked.names.items()})
