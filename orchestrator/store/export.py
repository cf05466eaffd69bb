"""Export the tables of a store for other programs, without duplicates and with each trial's newest attempt only."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from orchestrator.store.results import ResultStore
from orchestrator.store.schema import ADDED, COLUMNS, SCHEMA_VERSION
from trials.errors import RefusedError, StoreError
from trials.escaping.untrusted_text import csv_cell, json_text

Row = dict[str, Any]
DICTIONARY = "columns.md"
ABOUT = {
    "epochs": "A row an evaluation on dev, of each trial's newest attempt.",
    "trials": "A row a trial that has ended, by its newest attempt. Only `completed` ones belong in a mean.",
    "tags": "A row a label of each scored split, with the weights of the best epoch.",
    "predictions": "A row a sentence or text of each scored split, with the weights of the best epoch.",
    "contributions": "A row a scored split, with the weights of the best epoch: the score, sentence by sentence.",
    "probes": "A row a linear probe of the untouched encoder (`permafrost layers`): one train subset, one depth.",
    "drifts": "A row a part of the encoder of a trial with stored weights: how far training moved it.",
}


class Format(StrEnum):
    """The file format: `csv` for spreadsheets, `parquet` with all types, `jsonl` with one JSON object per line.

    In CSV a text that a spreadsheet would run as a formula gets an apostrophe before it; numbers do not.
    """

    CSV = "csv"
    PARQUET = "parquet"
    JSONL = "jsonl"


def export(store: ResultStore, folder: Path, form: Format) -> dict[str, int]:
    """Write every table and a description of the columns into a folder; the number of rows of each table.

    Raises:
        RefusedError: one of the files already exists.
        StoreError: the folder cannot be written.
    """
    tables: dict[str, Callable[[], pa.Table]] = {
        "trials": store.trials, "epochs": store.epochs, "tags": store.tags, "predictions": store.predictions,
        "contributions": store.contributions, "probes": store.probes,
        "drifts": store.drifts,
    }  # fmt: skip
    paths = {name: folder / f"{name}.{form}" for name in tables} | {DICTIONARY: folder / DICTIONARY}
    there = [path for path in paths.values() if path.exists()]
    if there:
        raise RefusedError(f"{there[0]}: already exists. Give another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        rows = {name: _export(read(), paths[name], form) for name, read in tables.items()}
        paths[DICTIONARY].write_text(dictionary(), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror or error}). Give another folder.") from error
    return rows


def _export(table: pa.Table, path: Path, form: Format) -> int:
    """Write under a temporary name first, so that an incomplete file never looks complete."""
    temporary = path.with_name(f".{path.name}.tmp")
    if form is Format.PARQUET:
        pq.write_table(table, temporary, compression="zstd")
    else:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            (_write_csv if form is Format.CSV else _write_jsonl)(table, file)
    temporary.replace(path)
    return len(table)


def _write_csv(table: pa.Table, file: TextIO) -> None:
    maps = {field.name: _keys(table[field.name]) for field in table.schema if pa.types.is_map(field.type)}
    heads = [[f"{name}.{key}" for key in maps[name]] if name in maps else [name] for name in table.column_names]
    writer = csv.writer(file)
    writer.writerow([csv_cell(head) for of_one in heads for head in of_one])
    for row in _rows(table):
        cells: list[object] = []
        for name, value in row.items():
            cells += [dict(value or ()).get(key) for key in maps[name]] if name in maps else [value]
        writer.writerow([_cell(value) for value in cells])


def _keys(column: pa.ChunkedArray) -> list[str]:
    """All keys that occur in a column of maps."""
    keys: set[str] = set()
    for chunk in column.chunks:
        keys |= set(pc.unique(chunk.keys).to_pylist()) if len(chunk) else set()
    return sorted(keys)


def _cell(value: object) -> object:
    if isinstance(value, list):
        return json_text(_plain(value))
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else csv_cell(_plain(value))


def _write_jsonl(table: pa.Table, file: TextIO) -> None:
    maps = {field.name for field in table.schema if pa.types.is_map(field.type)}
    for row in _rows(table):
        plain = {
            name: _plain(dict(value) if name in maps and value is not None else value) for name, value in row.items()
        }
        file.write(json_text(plain) + "\n")


def _plain(value: Any) -> Any:
    """As JSON can represent it: no NaN, times in ISO 8601."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value.isoformat() if isinstance(value, datetime) else value


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=4096):
        yield from batch.to_pylist()


def dictionary() -> str:
    """The data dictionary, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield f"# Columns\n\nOf store version {SCHEMA_VERSION}. `_s` are seconds, `_bytes` bytes, `_j` joules. In CSV a"
    yield "list is JSON; a map has a column a key (`best_metrics.accuracy`), and what is not there is an empty cell.\n"
    for table, stored in COLUMNS.items():
        columns = stored | (ADDED if table == "trials" else {})
        yield f"## {table}\n\n{ABOUT[table]}\n\n| column | type | what |\n|---|---|---|"
        for name, (kind, about) in columns.items():
            yield f"| `{name}` | {_type(kind)} | {about} |"
        yield ""


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return f"{kind.key_type} to {kind.item_type}" if pa.types.is_map(kind) else str(kind).replace("[us, tz=UTC]", "")
