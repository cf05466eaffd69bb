"""The rows of tables as their files hold them: TSV and CSV in the dialect that the whole file shows, JSON, Parquet.

Which dialect a text file is in is decided by all of it, each time it is read: quotes of a TSV count as such only where
each is one of a cell's ends or doubled inside, and something needed them; those of GLUE are characters. Of 168 tables
other sniffers read some in other rows (DuckDB's 4, CleverCSV's 10, Python's 23).
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

from trials.corpora.cell_evidence import is_number
from trials.corpora.text_file import check_fits, read_lines, refuse_other_content
from trials.errors import DataError
from trials.outside.plain_files import MOST_CONTENT, open_plain, read_bytes

csv.field_size_limit(sys.maxsize)  # cells of any length

TABLES = ("tsv", "csv", "jsonl", "parquet")
PARQUET_ROWS = 512  # rows of a batch
MOST_ROWS = 40 * PARQUET_ROWS  # rows of a Parquet file by which its columns are found
CSV_DELIMITERS = ",;\t|"
_SAMPLE = 100  # lines that the separator of a CSV file is found by
_separator = re.compile(r'"?sep=(.)"?[,;\t]*')  # the first line that Excel writes, or wants
_BACKSLASHES: Mapping[str, Any] = {"escapechar": "\\", "doublequote": False}
Row = tuple[str, Any]  # its place, and its cells: a list, a mapping, or the text of a line of JSON
FirstRows = Sequence[Mapping[str, Any]] | Sequence[Sequence[str]]


class Dialect(NamedTuple):
    """How the cells of a text file are written.

    Attributes:
        escape: What stands before a quote inside of quotes, where that is not another quote.
        skipped: Lines before the first row.
    """

    delimiter: str
    quoted: bool = True
    escape: str | None = None
    skipped: int = 0

    def notes(self) -> list[str]:
        """What a person may not expect."""
        named = {";": "semicolons", "\t": "tabs", "|": "bars"}.get(self.delimiter) or repr(self.delimiter)
        return [
            *([f"the cells are separated by {named}"] if self.delimiter not in ",\t" else []),
            *(["its first line, `sep=`, names the separator"] if self.skipped else []),
            *(["cells are quoted, as those of CSV"] if self.quoted and self.delimiter == "\t" else []),
            *([r"a quote inside of quotes is written \" (as Spark and MySQL do)"] if self.escape else []),
        ]


def dialect_of(format_: str, lines: Sequence[str]) -> Dialect:
    """The dialect of a TSV or CSV file."""
    first = next((line for line in lines if line.strip()), "")
    named = _separator.fullmatch(first.strip(" "))
    skipped = lines.index(first) + 1 if named else 0
    delimiter = named[1] if named else "\t" if format_ == "tsv" else csv_delimiter(lines)
    text = "\n".join([*lines[skipped:], ""])
    has_quoted = re.search(rf'(?:^|[{re.escape(delimiter)}\n])"', text) is not None
    escape = None
    if has_quoted and '\\"' in text and not _pairs_quotes(text, delimiter) and _pairs_quotes(text, delimiter, "\\"):
        escape = "\\"
    quoted = format_ == "csv" or (
        has_quoted and (escape is not None or _pairs_quotes(text, delimiter)) and _needs_quotes(text, escape)
    )
    return Dialect(delimiter, quoted, escape, skipped)


def _cell(delimiter: str, escape: str | None) -> str:
    inside = r'(?>[^"\\]|\\.)*+' if escape else r'(?>[^"]|"")*+'
    return rf'(?>"{inside}"(?=[{re.escape(delimiter)}\n])|[^"{re.escape(delimiter)}\n]*+)'


def _pairs_quotes(text: str, delimiter: str, escape: str | None = None) -> bool:
    """Whether every quote ends a cell, or is escaped as it must be inside one."""
    return re.fullmatch(rf"(?>{_cell(delimiter, escape)}[{re.escape(delimiter)}\n])*+", text, re.DOTALL) is not None


def _needs_quotes(text: str, escape: str | None) -> bool:
    """Whether the quotes of a TSV file are syntax: each quoted cell needs them, or all cells but numbers have them."""
    cells = [match[0] for match in re.finditer(_cell("\t", escape) + r"(?=[\t\n])", text, re.DOTALL) if match[0]]
    quoted = [cell for cell in cells if cell[0] == '"']
    numbers = sum(cell[0] != '"' and is_number(cell) for cell in cells)
    return all(re.search(r'""|[\t\n]|\\"', cell[1:-1]) for cell in quoted) or len(quoted) + numbers == len(cells)


def csv_delimiter(lines: Sequence[str]) -> str:
    """What separates the cells of a CSV file: a comma, unless only another separator divides its first rows alike."""
    return next((each for each in CSV_DELIMITERS if is_divided(lines, each)), ",")


def is_divided(lines: Sequence[str], delimiters: str = CSV_DELIMITERS) -> bool:
    """Whether any separator divides the first rows alike."""
    some = [line + "\n" for line in lines[:_SAMPLE] if line.strip()]
    for delimiter, how in product(delimiters, ({}, _BACKSLASHES)):
        with suppress(csv.Error):
            widths = [*map(len, csv.reader(some, delimiter=delimiter, **how))]
            if len({*widths[:-1]} or {*widths}) == 1 and widths[0] > 1:
                return True
    return False


def text_rows(
    path: Path, format_: str, lines: Sequence[str], *, strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """The line that each row of a TSV or CSV file starts at, and its cells, without blank lines. Raises DataError, if
    `strict`: quotes do not pair.
    """
    dialect = dialect_of(format_, lines)
    numbered = list(enumerate(lines, start=1))[dialect.skipped :]
    if not dialect.quoted:
        yield from ((n, cells) for n, line in numbered if any(cells := line.split("\t")) or len(cells) > 1)
        return
    # A quoted cell may contain a line end, so the lines get theirs back.
    texts = (line + "\n" for _, line in numbered)
    reader = csv.reader(texts, delimiter=dialect.delimiter, strict=strict, **(_BACKSLASHES if dialect.escape else {}))
    start = 1 + dialect.skipped
    try:
        for cells in reader:
            if any(cells) or len(cells) > 1:
                yield start, cells
            start = reader.line_num + 1 + dialect.skipped
    except csv.Error as error:
        raise DataError(
            f"{path}:{start}: the row that starts here is not CSV ({error}). Fix its quotes, or read the file as `tsv`."
        ) from error


def rows_of(path: Path, format_: str, names: Sequence[str] | None = None, *, strict: bool = True) -> Iterator[Row]:
    """The rows of a table of any format, lazily; of Parquet some columns only. Raises DataError."""
    if format_ == "parquet":
        return ((f"{path}:row {n}", flat(row)) for n, row in enumerate(parquet_rows(path, names), start=1))
    lines = read_lines(path)
    if format_ != "jsonl":
        return ((f"{path}:{n}", cells) for n, cells in text_rows(path, format_, lines, strict=strict))
    if (whole := objects_of(lines)) is not None:
        return ((f"{path}:item {n}", value) for n, value in enumerate(whole, start=1))
    return ((f"{path}:{n}", line) for n, line in enumerate(lines, start=1) if line.strip())


def objects_of(lines: Sequence[str]) -> list[dict[str, Any]] | None:
    """The objects of a file that is one JSON value; None for JSON lines, and for what holds no rows.

    Read are an array of objects, an object with one array of objects (`{"data": [...]}`), and what pandas writes with
    any `orient`.
    """
    some = list(islice((line for line in lines if line.strip()), 2))
    if not some or not (some[0].lstrip()[0] == "[" or len(some) == 1 or not some[0].rstrip().endswith("}")):
        return None
    try:
        value = json.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        names, rows = value.get("columns"), value.get("data")
        arrays = [part for part in value.values() if _are(dict, part)]
        if _are(str, names) and _are(list, rows):
            value = [dict(zip(names or (), row, strict=False)) for row in rows or ()]
        elif len(arrays) == 1:
            value = arrays[0]
        elif len(value) > 1 and _are(dict, parts := [*value.values()]) and len({*map(tuple, parts)}) == 1:
            is_column = len(parts[0]) > len(parts) or all(key.isdigit() for key in parts[0])
            value = _rows_of(value, map(dict.values, parts)) if is_column else parts
        elif len(value) > 1 and _are(list, parts) and len({*map(len, parts)}) == 1 and any(map(_are_items, parts)):
            value = _rows_of(value, parts)
    return value if _are(dict, value) else None


def _rows_of(names: Iterable[str], columns: Iterable[Iterable[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _are_items(column: Sequence[Any]) -> bool:
    """Whether a list holds sentences or texts, rather than the words of one sentence."""
    return any(isinstance(cell, list) or " " in str(cell) for cell in column)


def _are(kind: type, values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(value, kind) for value in values)


def flat(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row in which the values of nested objects also stand under their path, such as data.text."""
    if not any(isinstance(value, dict) for value in row.values()):
        return row
    found = dict(row)
    for name, value in row.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": cell for inner, cell in flat(value).items() if f"{name}.{inner}" not in found}
    return found


def parquet_rows(path: Path, names: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows with all columns or the given ones; classes have the names of the schema. Raises DataError."""
    import pyarrow as pa  # takes half a second, which a plan of other files need not wait for
    import pyarrow.parquet as pq

    n_bytes = 0
    try:
        with open_plain(path, MOST_CONTENT) as raw, pq.ParquetFile(raw) as file:
            there, classes = file.schema_arrow.names, _class_names(file.schema_arrow.metadata or {})
            some = names and [*dict.fromkeys(name if name in there else name.split(".")[0] for name in names)]
            for batch in file.iter_batches(PARQUET_ROWS, columns=some, use_threads=False):
                n_bytes += batch.nbytes
                check_fits(path, n_bytes)
                for row in batch.to_pylist():
                    yield row | {key: _by_names(row[key], names_of) for key, names_of in classes.items() if key in row}
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        refuse_other_content(path, read_bytes(path, MOST_CONTENT))
        raise DataError(f"{path}: not a complete Parquet file ({reason}). Download or write it again.") from error


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, Sequence[str]]:
    """The names of the classes of each column, where `datasets` has written them into a schema."""
    names = dict[str, Sequence[str]]()
    with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        for column, feature in json.loads(metadata[b"huggingface"])["info"]["features"].items():
            inner = feature.get("feature", feature) if isinstance(feature, dict) else feature[0]
            if inner.get("_type") == "ClassLabel" and _are(str, inner.get("names")):
                names[column] = inner["names"]
    return names


def _by_names(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_by_names(each, names) for each in value]
    is_id = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
    return names[value] if is_id else value


def first_rows(path: Path, format_: str) -> FirstRows:
    """The rows of a TSV, CSV or JSON file, or the first ones of a Parquet file: lists of cells, the header line
    included if there is one, or mappings. Rows that are broken are left to the reader. Raises DataError.
    """
    most = MOST_ROWS if format_ == "parquet" else None
    rows: list[Any] = [row for _, row in islice(rows_of(path, format_, strict=False), most)]
    if format_ == "jsonl":
        for i, row in enumerate(rows):
            with suppress(ValueError, RecursionError):
                rows[i] = json.loads(row) if isinstance(row, str) else row
        return [flat(row) for row in rows if isinstance(row, dict)]
    return rows


def column_cells(rows: Sequence[Any], column: str | int) -> list[Any] | None:
    """The cells of a column of `first_rows`, by name or position; None without the column. Rows that are too short have
    none.
    """
    if not rows or isinstance(rows[0], Mapping):
        return [row.get(column) for row in rows] if not rows or column in rows[0] else None
    header = rows[0]
    if isinstance(column, str):
        rows = [row for row in rows if row != header]
        column = header.index(column) if column in header else len(header)
    if not -len(header) <= column < len(header):
        return None
    return [row[column] for row in rows if -len(row) <= column < len(row)]


SIGNS = ",;|\t/"  # that part the tags of a sentence in a cell, where spaces do not


def parts_of(cell: str, sign: str) -> list[str]:
    """What a sign parts in a cell."""
    return re.split(rf"\s*{re.escape(sign)}\s*", cell.strip(f" {sign}"))


def words_and_tags(words: str, tags: str) -> tuple[list[str], list[str]]:
    """What two cells hold of a sentence: words between spaces, or between the sign that parts the tags."""
    apart = words.split(" ")
    alike = [(parts_of(words, sign), parts_of(tags, sign)) for sign in SIGNS if len(apart) == 1]
    ways = [*(way for way in alike if len(way[0]) > 1), *((apart, parts_of(tags, sign)) for sign in (*SIGNS, " "))]
    most = max((parts_of(tags, sign) for sign in (*SIGNS, " ")), key=len)
    return next((way for way in ways if len(way[0]) == len(way[1])), (apart, most))


_part = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s,\[\]'"]+)""")


def printed_list(cell: str) -> list[str] | None:
    """What a list printed into a cell holds, as Python, JSON or numpy print it; None for another cell."""
    if not (cell.startswith("[") and cell.endswith("]")):
        return None
    found = []
    for match in _part.finditer(cell[1:-1]):
        word = match[1] if match[1] is not None else match[2] if match[2] is not None else match[3]
        with suppress(ValueError):
            word = json.loads(f'"{word}"') if "\\u" in word else re.sub(r"\\(.)", r"\1", word)
        found.append(word)
    return found
