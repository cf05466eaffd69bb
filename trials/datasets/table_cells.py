"""Convert the rows of a table to texts or sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from trials.datasets.broken_lines import convert_all
from trials.datasets.column_keys import check_keys
from trials.datasets.corpus import Sentence, Text
from trials.datasets.text_file import TOO_MANY_MARKS, heap_of_marks, normalised
from trials.errors import DataError, unknown
from trials.escaping import quoted
from trials.settings import Columns

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
        words = ", ".join(f"{key}: {value}" for key, value in asked.items())
        raise DataError(f"{path}: columns: {words} mixes names and positions. Give all by name or all by position.")
    return TableColumns(path, names, {} if names else asked)


def items(asked: TableColumns, rows: Iterable[Row | DataError]) -> list[Sentence] | list[Text]:
    """The rows as texts or sentences; in place of a row that could not be read stands its error.

    Raises:
        BrokenLinesError: cells are empty or of the wrong kind, or rows are errors; names each one's place.
    """
    return _converted(_text, rows) if asked.texts else _converted(_sentence, rows)


def _converted(convert: Callable[[Row], ItemT], rows: Iterable[Row | DataError]) -> list[ItemT]:
    def converted(row: Row | DataError) -> ItemT:
        if isinstance(row, DataError):
            raise row
        return convert(row)

    return convert_all(converted, rows)


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
    if heap_of_marks(value) is not None:
        raise DataError(f"{row.place}: the {key}: {TOO_MANY_MARKS}")
    return normalised(value)


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
