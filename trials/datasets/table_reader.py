"""Read tables: TSV without any quoting, CSV, JSON lines and Parquet, one text or sentence per row.

A row is a labelled text if `columns.text` is given, a sentence if `columns.tokens` is. Formats with named columns need
names in `columns`; a TSV or CSV file whose columns are given by position has no header line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from trials.datasets.corpus import CORPUS_FORMATS, Sentence, Text
from trials.datasets.memory import check_fits
from trials.datasets.table_cells import SENTENCE_KEYS, Row, TableColumns, items, table_columns
from trials.datasets.text_file import read_lines
from trials.errors import DataError, unknown
from trials.escaping.plain_files import MOST_CONTENT, opened
from trials.settings import Columns

PARQUET_ROWS = 512  # of a batch; few, so that a value repeated in all of them is noticed before it fills the memory
CSV_DELIMITERS = ",;\t|"
_SAMPLE = 100  # lines that the separator of a CSV file is found by
_MOST_BATCHES = 40  # of a Parquet file, that its columns are guessed from
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
    return items(asked, islice(_json_rows(path, asked), first))


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
    widths = {each: [*map(len, csv.reader(some, delimiter=each))] for each in CSV_DELIMITERS}
    alike = [each for each, found in widths.items() if len({*found[:-1]} or {*found}) == 1 and found[0] > 1]
    return next(iter(alike), ",")


def first_rows(path: Path, format_: str) -> Sequence[Mapping[str, Any]] | Sequence[Sequence[str]]:
    """The rows of a TSV, CSV or JSON lines file, or the first ones of a Parquet file: lists of cells, the header line
    included if there is one, or mappings. Rows that are broken are left to the reader. Raises DataError.
    """
    if format_ == "parquet":
        return _first_of_parquet(path)
    lines = [line for line in read_lines(path) if line.strip()]
    try:
        if format_ == "jsonl":
            found = [json.loads(line) for line in lines]
            return [row for row in found if isinstance(row, dict)]
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
    if rows and isinstance(rows[0], Mapping):
        lacks = label not in rows[0] and columns.text in rows[0]
        return [None] if lacks else [row.get(label) for row in rows]
    if isinstance(label, int):
        found = [row[label] for row in rows if -len(row) <= label < len(row)]
        return found or ([None] if rows else [])
    if not rows or label not in rows[0]:
        return [None] if rows and columns.text in rows[0] else []
    at = rows[0].index(label)
    return [row[at] for row in rows[1:] if len(row) > at]


def column_cells(rows: Sequence[Mapping[str, Any]] | Sequence[Sequence[str]], name: str) -> list[Any]:
    """The cells of a column of `first_rows` by its name; none if a row, or the header line, lacks it."""
    objects = [row for row in rows if isinstance(row, Mapping)]
    if objects:
        found = [row[name] for row in objects if name in row]
        return found if len(found) == len(rows) else []
    header, *rest = [list(row) for row in rows] or [[]]
    return [row[header.index(name)] for row in rest if len(row) == len(header)] if name in header else []


def _first_of_parquet(path: Path) -> list[Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with opened(path, MOST_CONTENT) as raw, pq.ParquetFile(raw) as file:
            batches = file.iter_batches(PARQUET_ROWS, use_threads=False)
            return [row for batch in islice(batches, _MOST_BATCHES) for row in batch.to_pylist()]
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a complete Parquet file ({str(error).partition(chr(10))[0]}).") from error


def _text_rows(path: Path, asked: TableColumns, rows: Iterator[Cells]) -> Iterator[Row | DataError]:
    """The used cells of every row; the first row is the header if columns are given by name."""
    first = next(rows, None)
    if first is None:
        return
    number, cells = first
    try:
        places = asked.places_of(f"{path}:{number}", cells)
    except DataError as error:
        raise DataError(f"{error}{_no_header(asked, cells)}") from error
    if asked.by_position:
        yield Row(f"{path}:{number}", _cells(cells, places))
    whose = "the first row" if asked.by_position else "the header"
    for n, row in rows:
        if len(row) != len(cells):
            count = "one column" if len(row) == 1 else f"{len(row)} columns"
            yield DataError(f"{path}:{n}: a row has {count}, {whose} has {len(cells)}. Fix this row.")
        else:
            yield Row(f"{path}:{n}", _cells(row, places))


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


def _json_rows(path: Path, asked: TableColumns) -> Iterator[Row | DataError]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            try:
                yield _json_row(f"{path}:{number}", line, asked)
            except DataError as error:
                yield error


def _json_row(place: str, line: str, asked: TableColumns) -> Row:
    found = _json_object(place, line)
    for key, name in asked.names.items():
        if name not in found:
            raise DataError(f"{place}: columns.{key}: {unknown(name, found, in_file=True)}")
    return Row(place, {key: found[name] for key, name in asked.names.items()})


def _json_object(place: str, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON ({error}). Each line holds one object.") from error
    if not isinstance(found, dict):
        raise DataError(f"{place}: a line holds one JSON object, not {type(found).__name__}. Fix this line.")
    return found


def _parquet_rows(path: Path, asked: TableColumns) -> Iterator[Row]:
    import pyarrow as pa  # takes half a second, which a plan of other files need not wait for
    import pyarrow.parquet as pq

    number, n_bytes = 0, 0
    try:
        with opened(path, MOST_CONTENT) as raw, pq.ParquetFile(raw) as file:
            asked.places_of(str(path), file.schema_arrow.names)
            _check_row_groups(path, file.metadata, asked.names.values())
            # In batches, as a value that a dictionary holds once may stand in every row.
            for batch in file.iter_batches(PARQUET_ROWS, columns=list(asked.names.values()), use_threads=False):
                n_bytes += batch.nbytes
                check_fits(path, n_bytes, what="its rows hold at least")
                columns = {key: batch.column(name).to_pylist() for key, name in asked.names.items()}
                for cells in zip(*columns.values(), strict=True):
                    number += 1
                    yield Row(f"{path}:row {number}", dict(zip(columns, cells, strict=True)))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(f"{path}: not a complete Parquet file ({reason}). Download or write it again.") from error


def _check_row_groups(path: Path, metadata: Any, used: Collection[str]) -> None:
    """Raise DataError if the used columns of a row group, which are read as a whole, do not fit in memory."""
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        columns = [group.column(j) for j in range(group.num_columns)]
        n_bytes = sum(c.total_uncompressed_size for c in columns if c.path_in_schema.partition(".")[0] in used)
        check_fits(path, n_bytes, what=f"row group {i + 1} of {metadata.num_row_groups} has")
