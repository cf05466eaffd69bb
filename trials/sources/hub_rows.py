"""Rows of a dataset of the hub as canonical JSON lines: a digest depends on them, and not on a library's version."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from trials.errors import DataError
from trials.escaping import quoted

Convert = Callable[[Any], Any]

HIDDEN = -1  # the hub's value of an unpublished label
_PLAIN = ("string", "large_string", "bool", "null", "int", "uint")
_FLOAT = ("float", "double")
_AS_TEXT = ("timestamp", "date", "time", "duration", "decimal")  # JSON has none of them; their text is as exact


def write_rows(rows: Iterable[Mapping[str, Any]], features: Mapping[str, Any], path: Path) -> bool:
    """Write one JSON object per row: keys sorted, no spaces, class ids replaced by their names.

    A hidden class (-1) and a number that is not finite become null.

    Args:
        rows: In order, every column in each.
        features: The `datasets` feature of each column.

    Returns:
        Whether the rows have labels; False if all values of all label columns are hidden, as in GLUE's test splits.

    Raises:
        DataError: a column that holds no text or numbers (an image, bytes).
    """
    converts = {column: converter(column, feature) for column, feature in features.items()}
    labels = label_columns(features)
    n_rows, labelled = 0, False
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            n_rows += 1
            labelled = labelled or any(row[column] != HIDDEN for column in labels)
            converted = {column: convert(row[column]) for column, convert in converts.items()}
            file.write(json.dumps(converted, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n")
    return labelled or not labels or not n_rows


def label_columns(features: Mapping[str, Any]) -> list[str]:
    """Columns whose -1 means hidden: the classes, or, for a regression, the number called `label`."""
    classes = [column for column, feature in features.items() if type(feature).__name__ == "ClassLabel"]
    number = str(getattr(features.get("label"), "dtype", "")).startswith(("float", "int"))
    return classes or (["label"] if number else [])


def converter(column: str, feature: Any) -> Convert:
    """The function from a value, as `datasets` gives it, to what JSON holds. Raises DataError: see `write_rows`."""
    kind = type(feature).__name__  # by name, so that a plan need not load the library
    if isinstance(feature, dict):
        parts = {key: converter(f"{column}.{key}", inner) for key, inner in feature.items()}
        return _optional(lambda value: {key: part(value[key]) for key, part in parts.items()})
    if kind in ("List", "LargeList", "Sequence"):
        inner = converter(column, feature.feature)
        return _optional(lambda values: [inner(value) for value in values])
    if kind == "ClassLabel":
        names = list(feature.names)
        return _optional(lambda number: names[number] if number >= 0 else None)
    if kind == "Value" and feature.dtype.startswith(_FLOAT):
        return _optional(lambda number: number if math.isfinite(number) else None)
    if kind == "Value" and feature.dtype.startswith(_AS_TEXT):
        return _optional(str)
    if kind == "Value" and feature.dtype.startswith(_PLAIN):
        return _optional(lambda value: value)
    raise DataError(
        f"column {quoted(column)} holds {quoted(feature)}; only text, numbers and classes, or lists of them, are read."
    )


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)
