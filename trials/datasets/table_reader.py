"""Read tables: TSV without any quoting, CSV, JSON lines and Parquet, one text or sentence per row.

A row is a labelled text if `columns.text` is given, a sentence if `columns.tokens` is. Formats with named columns need
names in `columns`; a TSV or CSV file whose columns are given by position has no header line.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from trials.datasets.corpus import CORPUS_FORMATS, Sentence, Text
from trials.datasets.text_file import check_fits, convert_all, read_lines
from trials.errors import DataError, unknown
from trials.escaping import MOST_CONTENT, composed, opened, quoted
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
    """A class's name, or a number in its shortest form: 1 and 1.0 are "1"; a string is unchanged."""
    value = row.cells["label"]
    if isinstance(value, str):
        return _string(row, "label")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, float) or not math.isfinite(value):
        raise DataError(
            f"{row.place}: the label is {quoted(value)}, neither a string nor a number. Fix or delete this row."
        )
    return str(int(value)) if value.is_integer() else repr(value)


def _sentence(row: Row) -> Sentence:
    tokens, tags = _strings(row, "tokens"), _strings(row, "tags")
    if len(tokens) != len(tags):
        raise DataError(f"{row.place}: {len(tokens)} tokens but {len(tags)} tags. Fix or delete this row.")
    return Sentence(tokens, tags, row.place, document=_document(row))


def _document(row: Row) -> str | None:
    """What its cell names; an empty cell names none."""
    value = row.cells.get(DOCUMENT_KEY)
    return None if value is None or value == "" or value != value else str(value)


def _strings(row: Row, key: str) -> tuple[str, ...]:
    values = row.cells[key]
    if not isinstance(values, list) or not values:
        raise DataError(f"{row.place}: the {key} are {quoted(values)}, not a list of strings. Fix or delete this row.")
    for number, word in enumerate(values, start=1):
        is_id = key == "tags" and isinstance(word, int) and not isinstance(word, bool)
        if not is_id and not (isinstance(word, str) and word):
            raise DataError(f"{row.place}: number {number} of the {key} is {quoted(word)}. Fix or delete this row.")
    return tuple(_clean(row, key, str(word)) for word in values)


PARQUET_ROWS = 512  # of a batch
CSV_DELIMITERS = ",;\t|"
_SAMPLE = 100  # lines that the separator of a CSV file is found by
_MOST_ROWS = 40 * PARQUET_ROWS  # of a Parquet file, that its columns are guessed from
Cells = tuple[int, list[str]]  # the number of the line a row starts at, and its cells


@CORPUS_FORMATS.register("tsv")
def read_tsv(path: Path, columns: Columns, first: int | None = None) -> list[Sentence] | list[Text]:
    """The rows of a file whose cells are separated by tabs; a quotation mark is a character like any other.

    Words and tags inside a cell are separated by single spaces.

    Raises:
        DataError: the file, its header or a row does not fit `columns`; names file and line.
    """
    return _read_text_table(path, columns, lambda lines: ((n, line.split("\t")) for n, line in lines))[:first]


@CORPUS_FORMATS.register("csv")
def read_csv(path: Path, columns: Columns, first: int | None = None) -> list[Sentence] | list[Text]:
    """The rows of a file whose cells are separated by commas and quoted where they hold a comma, a quote or a line end.

    Where commas do not divide all lines alike and semicolons, tabs or bars do, these separate the cells.

    Words and tags inside a cell are separated by single spaces.

    Raises:
        DataError: the file, its header or a row does not fit `columns`; names the line a row starts at.
    """
    return _read_text_table(path, columns, lambda lines: _csv_rows(path, lines))[:first]


@CORPUS_FORMATS.register("jsonl")
def read_jsonl(path: Path, columns: Columns, first: int | None = None) -> list[Sentence] | list[Text]:
    """The objects of a file with one per line; words and tags are lists of strings, labels strings or numbers.

    Raises:
        DataError: a line is not a JSON object or does not fit `columns`; names file and line.
    """
    asked = table_columns(path, columns)
    asked.refuse_positions()
    lines = ((f"{path}:{n}", line) for n, line in enumerate(read_lines(path), start=1) if line.strip())
    return items(asked, (partial(_json_row, *line, asked) for line in islice(lines, first)))


@CORPUS_FORMATS.register("parquet")
def read_parquet(path: Path, columns: Columns, first: int | None = None) -> list[Sentence] | list[Text]:
    """The rows of a Parquet file; words and tags are lists, labels strings or numbers.

    Raises:
        DataError: the file is broken or not what `columns` says; names file and row, counted from 1.
    """
    asked = table_columns(path, columns)
    asked.refuse_positions()
    return items(asked, islice(_parquet_rows(path, asked), first))


def _read_text_table(
    path: Path, columns: Columns, split: Callable[[Iterable[tuple[int, str]]], Iterator[Cells]]
) -> list[Sentence] | list[Text]:
    asked = table_columns(path, columns)
    rows = split(enumerate(read_lines(path), start=1))
    return items(asked, _text_rows(path, asked, ((n, cells) for n, cells in rows if any(cells) or len(cells) > 1)))


def _csv_rows(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[Cells]:
    # A quoted cell may contain a line end, so the lines get theirs back.
    texts = [line for _, line in lines]
    reader = csv.reader((line + "\n" for line in texts), delimiter=csv_delimiter(texts), strict=True)
    start = 1
    try:
        for cells in reader:
            yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}:{start}: the row that starts here is not CSV ({error}). Fix its quotes, or read the file as `tsv`."
        ) from error


def csv_delimiter(lines: Sequence[str]) -> str:
    """What separates the cells of a CSV file: a comma, unless only another separator divides its first rows alike."""
    some = [line + "\n" for line in lines[:_SAMPLE] if line.strip()]
    for delimiter in CSV_DELIMITERS:
        with suppress(csv.Error):  # a cell beyond the limit of `csv`, which who reads the rows reports with its place
            widths = [*map(len, csv.reader(some, delimiter=delimiter))]
            if len({*widths[:-1]} or {*widths}) == 1 and widths[0] > 1:
                return delimiter
    return ","


def first_rows(path: Path, format_: str) -> Sequence[Mapping[str, Any]] | Sequence[Sequence[str]]:
    """The rows of a TSV, CSV or JSON lines file, or the first ones of a Parquet file: lists of cells, the header line
    included if there is one, or mappings. Rows that are broken are left to the reader. Raises DataError.
    """
    if format_ == "parquet":
        return [*islice(_rows_of_parquet(path), _MOST_ROWS)]
    lines = [line for line in read_lines(path) if line.strip()]
    try:
        if format_ == "jsonl":
            values = [json.loads(line) for line in lines]
            return [row for row in values if isinstance(row, dict)]
        if format_ == "tsv":
            return [line.split("\t") for line in lines]
        return [*csv.reader((line + "\n" for line in lines), delimiter=csv_delimiter(lines), strict=False)]
    except (ValueError, RecursionError, csv.Error) as error:
        way_out = " Write one JSON object a line." if format_ == "jsonl" else ""
        raise DataError(f"{path}: not {format_.upper()} ({error}).{way_out}") from error


def label_cells(path: Path, format_: str, label: str | int | None, columns: Columns) -> list[Any]:
    """The cells of the labels as they stand; `[None]` if the file has no such column while it has the texts'.
    Raises DataError.
    """
    rows: Sequence[Any] = first_rows(path, format_)
    if not rows or label is None:
        return []
    if isinstance(label, str) and label not in rows[0] and columns.text in rows[0]:
        return [None]
    return column_cells(rows, label) or ([None] if isinstance(label, int) else [])


def column_cells(rows: Sequence[Any], column: str | int) -> list[Any]:
    """The cells of a column of `first_rows`, by name or position: None in an object without it; rows of cells that are
    too short, and all rows below a header line without it, have none.
    """
    if not rows or isinstance(rows[0], Mapping):
        return [row.get(column) for row in rows]
    if isinstance(column, str) and column not in rows[0]:
        return []
    at, cells = (rows[0].index(column), rows[1:]) if isinstance(column, str) else (column, rows)
    return [row[at] for row in cells if -len(row) <= at < len(row)]


def _text_rows(path: Path, asked: TableColumns, rows: Iterator[Cells]) -> Iterator[LazyRow]:
    """The used cells of every row; the first row is the header if columns are given by name."""
    first = next(rows, None)
    if first is None:
        return
    number, cells = first
    try:
        places = asked.places_of(f"{path}:{number}", cells)
    except DataError as error:
        raise DataError(f"{error}{_no_header(asked, cells)}") from error
    whose = "the first row" if asked.by_position else "the header"

    def row_at(n: int, row: Sequence[str]) -> Row:
        if len(row) != len(cells):
            count = "one column" if len(row) == 1 else f"{len(row)} columns"
            raise DataError(f"{path}:{n}: a row has {count}, {whose} has {len(cells)}. Fix this row.")
        return Row(f"{path}:{n}", _cells(row, places))

    yield from (partial(row_at, *row) for row in chain([first] if asked.by_position else [], rows))


def _no_header(asked: TableColumns, first: Sequence[str]) -> str:
    """What to do if the first row, which has none of the names, is no header line."""
    if asked.by_position or {*first} & {*asked.names.values()}:
        return ""
    numbers = {key: n for n, key in enumerate(asked.names)}
    options = f"--text {numbers['text']} --label {numbers['label']}, in a sweep file " if asked.texts else ""
    return (
        f" If this is no header line: use {options}`columns: {{{', '.join(f'{k}: {n}' for k, n in numbers.items())}}}`."
    )


def _cells(row: Sequence[str], places: Mapping[str, int]) -> dict[str, str | list[str]]:
    """The used cells, those of words and tags split."""
    return {key: row[at].split(" ") if key in SENTENCE_KEYS else row[at] for key, at in places.items()}


def _json_row(place: str, line: str, asked: TableColumns) -> Row:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON ({error}). Each line holds one object.") from error
    if not isinstance(value, dict):
        raise DataError(f"{place}: a line holds one JSON object, not {type(value).__name__}. Fix this line.")
    for key, name in asked.names.items():
        if name not in value:
            raise DataError(f"{place}: columns.{key}: {unknown(name, value, in_file=True)}")
    return Row(place, {key: value[name] for key, name in asked.names.items()})


def _parquet_rows(path: Path, asked: TableColumns) -> Iterator[LazyRow]:
    for number, row in enumerate(_rows_of_parquet(path, asked), start=1):
        yield partial(Row, f"{path}:row {number}", {key: row[name] for key, name in asked.names.items()})


def _rows_of_parquet(path: Path, asked: TableColumns | None = None) -> Iterator[dict[str, Any]]:
    """The rows, with all columns or those that are asked for. Raises DataError."""
    import pyarrow as pa  # takes half a second, which a plan of other files need not wait for
    import pyarrow.parquet as pq

    n_bytes = 0
    try:
        with opened(path, MOST_CONTENT) as raw, pq.ParquetFile(raw) as file:
            if asked is not None:
                asked.places_of(str(path), file.schema_arrow.names)
            names = None if asked is None else [*dict.fromkeys(asked.names.values())]
            for batch in file.iter_batches(PARQUET_ROWS, columns=names, use_threads=False):
                n_bytes += batch.nbytes
                check_fits(path, n_bytes)
                yield from batch.to_pylist()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(f"{path}: not a complete Parquet file ({reason}). Download or write it again.") from error
