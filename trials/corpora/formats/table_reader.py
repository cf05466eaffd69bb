"""Read tables: TSV, CSV, JSON and Parquet, one text or sentence per row.

A row is a labelled text if `columns.text` is given, a sentence if `columns.tokens` is. Formats with named columns need
names in `columns`, or paths (such as data.text) of what objects in cells hold; a TSV or CSV file whose columns are
given by position has no header line. A header line that comes again is no row. Words and tags are lists, lists that
are printed into both cells, or parts between single spaces.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from trials.corpora.broken_lines import check_keys, convert_all
from trials.corpora.column_names import NO_PAIR, REJECTED
from trials.corpora.corpus import CORPUS_FORMATS, Sentence, Text
from trials.corpora.formats.table_evidence import document_column, find_columns
from trials.corpora.layout import FORMAT_LAYOUTS, Asked, FormatLayout
from trials.corpora.table_rows import (
    TABLES,
    csv_delimiter,
    dialect_of,
    flat,
    parquet_rows,
    printed_list,
    rows_of,
    words_and_tags,
)
from trials.corpora.text_file import read_lines
from trials.errors import DataError, quote, unknown_name
from trials.escaping import compose
from trials.spec import Columns

Cells = Mapping[str, Any]  # of a row, by key of `Columns`
TEXT_KEYS = ("text", "pair", "label")
SENTENCE_KEYS = ("tokens", "tags")


def read_table(format_: str, path: Path, columns: Columns, first: int | None = None) -> list[Sentence] | list[Text]:
    """The items of a file's rows, or of its first ones.

    Raises:
        DataError: The file or its header does not fit `columns`, or a row's quotes do not pair; names file and line.
        BrokenLinesError: Rows cannot be read, or cells are empty or of the wrong kind; names each one's place.
    """
    rows = rows_of(path, format_, [str(name) for _, name in columns if name is not None])
    wanted = _columns_by_key(path, columns)
    by_position = [key for key, column in wanted.items() if isinstance(column, int)]
    if format_ in ("tsv", "csv"):
        if (head := next(rows, None)) is None:
            return []
        cells = partial(_cells_by_place, _places(*head, wanted), len(head[1]), "first row" if by_position else "header")
        rows = chain([head], rows) if by_position else (row for row in rows if row[1] != head[1])
    else:
        for key in by_position:
            raise DataError(f"{path}: columns.{key}: this format's columns have names; give one for {wanted[key]}.")
        names = {key: str(column) for key, column in wanted.items()}
        for whole in islice(parquet_rows(path), 1) if format_ == "parquet" else ():
            _cells_by_name(names, str(path), flat(whole))
        cells = partial(_cells_by_name, names)
    read = _text if "text" in wanted else _sentence
    return convert_all(lambda row: read(row[0], cells(*row)), islice(rows, first))  # type: ignore[return-value]


read_tsv, read_csv, read_jsonl, read_parquet = (
    CORPUS_FORMATS.register(name)(partial(read_table, name)) for name in TABLES
)


def _columns_by_key(path: Path, columns: Columns) -> dict[str, str | int]:
    """The column of each key. Raises DataError: they are of neither texts nor words, of both, lack the labels, or mix
    names and positions.
    """
    if columns.text is None and columns.tokens is None:
        raise DataError(
            f"{path}: a table does not say what its columns hold. Give `columns`: text and label, or tokens and tags."
        )
    keys, what = (TEXT_KEYS, "texts") if columns.text is not None else (SENTENCE_KEYS, "sentences")
    check_keys(path, columns, f"a table of {what}", *keys, "document")
    if getattr(columns, keys[-1]) is None:
        raise DataError(f"{path}: columns.{keys[-1]}: not given, and a row needs it beside {keys[0]}.")
    wanted = {key: value for key in (*keys, "document") if (value := getattr(columns, key)) is not None}
    if len({*map(type, wanted.values())}) > 1:
        listed = ", ".join(f"{key}: {value}" for key, value in wanted.items())
        raise DataError(f"{path}: columns: {listed} mixes names and positions. Give all by name or all by position.")
    return wanted


def _places(place: str, first: Sequence[str], asked: Mapping[str, str | int]) -> dict[str, int]:
    """The position of each key's column (-1 is the last), given the first row. Raises DataError."""
    for key, column in asked.items():
        if isinstance(column, int) and not -len(first) <= column < len(first):
            raise DataError(f"{place}: columns.{key}: there is no column {column}, a row has {len(first)}.")
        if isinstance(column, str) and column not in first:
            raise DataError(f"{place}: columns.{key}: {unknown_name(column, first, in_file=True)}")
        if isinstance(column, str) and first.count(column) > 1:
            raise DataError(f"{place}: columns.{key}: the header has {column!r} twice. Rename one.")
    return {key: first.index(column) if isinstance(column, str) else column for key, column in asked.items()}


def _cells_by_place(places: Mapping[str, int], width: int, whose: str, place: str, row: Sequence[str]) -> Cells:
    if len(row) != width:
        count = "one column" if len(row) == 1 else f"{len(row)} columns"
        raise DataError(f"{place}: a row has {count}, the {whose} has {width}. Fix this row.")
    return {key: row[index] for key, index in places.items()}


def _cells_by_name(asked: Mapping[str, str], place: str, value: Any) -> Cells:
    """The cells of an object, or of a line that holds one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}: not JSON ({error}). Each line holds one object.") from error
    if not isinstance(value, Mapping):
        raise DataError(f"{place}: a line holds one JSON object, not {type(value).__name__}. Fix this line.")
    # A key may itself have a dot: objects are opened only where a column is not a plain key.
    found: Mapping[Any, Any] = value if {*asked.values()} <= value.keys() else flat(value)
    for key, name in asked.items():
        if name not in found:
            raise DataError(f"{place}: columns.{key}: {unknown_name(name, found, in_file=True)}")
    cells = {key: found[name] for key, name in asked.items()}
    answer = found.get("answer")  # of Prodigy: a label that was rejected is none
    if "label" in cells and (answer == "ignore" or (answer == "reject" and asked["label"] != "answer")):
        cells["label"] = REJECTED
    return cells


def _text(place: str, cells: Cells) -> Text:
    pair = _string(place, "pair", cells["pair"]) if "pair" in cells else None
    return Text(_string(place, "text", cells["text"]), pair, _label(place, cells["label"]), place, _document(cells))


def _string(place: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise DataError(f"{place}: the {key} is {quote(value)}, not a string. Fix or delete this row.")
    if not value.strip():
        raise DataError(f"{place}: the {key} is empty. Fix or delete this row.")
    return _clean(place, key, value)


def _clean(place: str, key: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:  # half a surrogate pair, which JSON can write but no tokenizer can read
        raise DataError(f"{place}: the {key} is not Unicode text ({error.reason}). Fix this row.") from error
    return compose(value)


def _label(place: str, value: Any) -> str:
    """The name of a class, or a number in its shortest form: 1 and 1.0 are "1". A string is unchanged, a list with one
    element counts as that element. Empty if there is no label.
    """
    # A list that was printed into a cell has quoted strings; another text in brackets, such as `[1]`, is a label.
    listed = printed_list(value) if isinstance(value, str) and value[:2] in ("['", '["') else value
    if isinstance(listed, list) and len(listed) < 2:
        value = listed[0] if listed else None
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, str):
        return _clean(place, "label", value)
    if isinstance(value, bool):  # before numbers, as Python counts it as one; written as in JSON
        return str(value).lower()
    if not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        raise DataError(f"{place}: the label is {quote(value)}, neither a string nor a number. Fix or delete this row.")
    return str(int(value)) if value == int(value) else str(value)


def _sentence(place: str, cells: Cells) -> Sentence:
    both = [cells[key] for key in SENTENCE_KEYS]
    if all(isinstance(cell, str) for cell in both):
        lists = [*map(printed_list, both)]
        both = [*words_and_tags(*both)] if None in lists else lists
    tokens, tags = map(partial(_strings, place), SENTENCE_KEYS, both)
    if len(tokens) != len(tags):
        raise DataError(f"{place}: {len(tokens)} tokens but {len(tags)} tags. Fix or delete this row.")
    return Sentence(tokens, tags, place, document=_document(cells))


def _document(cells: Cells) -> str | None:
    """What its cell names; an empty cell names none."""
    value = cells.get("document")
    return None if value is None or value == "" or value != value else str(value)


def _strings(place: str, key: str, values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not values:
        raise DataError(f"{place}: the {key} are {quote(values)}, not a list of strings. Fix or delete this row.")
    for number, word in enumerate(values, start=1):
        is_id = key == "tags" and isinstance(word, int) and not isinstance(word, bool)
        if not is_id and not (isinstance(word, str) and word):
            raise DataError(f"{place}: number {number} of the {key} is {quote(word)}. Fix or delete this row.")
    return tuple(_clean(place, key, str(word)) for word in values)


def _columns(format_: str, path: Path, asked: Asked) -> tuple[Columns, list[str]]:
    """The columns of a table, as far as its task or columns are known, and the column of its documents."""
    if asked.task is None and asked.given is None:
        return Columns(), []
    columns, notes = _given_or_found(format_, path, asked)
    if columns.document == NO_PAIR:
        columns = columns.model_copy(update={"document": None})
    elif columns.document is None and (named := document_column(format_, columns, [path, *map(Path, asked.files)])):
        columns = columns.model_copy(update={"document": named})
        notes.append(f"documents by column {named!r} (--document for another, or {NO_PAIR})")
    return columns, notes


def _given_or_found(format_: str, path: Path, asked: Asked) -> tuple[Columns, list[str]]:
    """The columns of a table: the given ones; for the others the task's own, known names or fitting contents."""
    given, task = asked.given or Columns(), asked.task or Columns()
    notes = dialect_of(format_, read_lines(path)).notes() if format_ in ("tsv", "csv") else []
    is_whole = given.label is not None if given.text is not None else None not in (given.tokens, given.tags)
    if is_whole and not (asked.looks_for_pair and given.text is not None):
        return given, notes  # the reader checks them
    columns, more = find_columns(path, format_, given, task)
    return columns, [*notes, *more]


def _takes(format_: str, path: Path, shown: str, asks_texts: bool) -> bool:
    """Whether a table's lines may look like another format: texts like a word a line, CSV like TSV."""
    is_csv = {format_, shown} == {"csv", "tsv"} and csv_delimiter(read_lines(path)) == "\t"
    return is_csv or (shown == "columns" and asks_texts)


for name in TABLES:
    FORMAT_LAYOUTS.register(name)(
        FormatLayout(partial(_columns, name), is_table=True, is_text=name != "parquet", takes=partial(_takes, name))
    )
