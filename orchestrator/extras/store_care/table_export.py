"""Export the tables of a store for other programs, each trial's newest attempt only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from orchestrator.store.results import ResultStore
from orchestrator.store.schema import COLUMNS, SCHEMA_VERSION
from orchestrator.store.stored_specs import planned_specs
from orchestrator.store.sweep_plans import SweepPlan
from trials.errors import RefusedError, StoreError
from trials.escaping import csv_cell, json_line

DICTIONARY = "columns.md"
ABOUT = {
    "epochs": "A row an evaluation on dev, of each trial's newest attempt.",
    "trials": "One row per trial that has ended, by its newest attempt. Only `completed` ones belong in a mean.",
    "tags": "One row per label of each scored split, with the weights of the best epoch.",
    "predictions": "One row per sentence or text of each scored split, with the weights of the best epoch.",
    "contributions": "A row a scored split, with the weights of the best epoch: the score, sentence by sentence.",
    "probes": "A row a linear probe of the untouched encoder (`permafrost layers`): one train subset, one depth.",
    "drifts": "A row a part of the encoder of a trial with stored weights: how far training moved it.",
    "losses": "One row a sweep and setting but the baselines; computed, not stored.",
}
_TEXT, _NUMBER, _COUNT = pa.string(), pa.float64(), pa.int64()
LOSS_COLUMNS: dict[str, tuple[pa.DataType, str]] = {
    "sweep": (_TEXT, "Its name."),
    "group": (_TEXT, "Task, score, corpus and train size; or why the sweep's plan cannot be read."),
    "model": (_TEXT, "What people call the pretrained model."),
    "freeze": (_TEXT, "What is frozen."),
    "setup": (_TEXT, "Other settings that vary in the sweep."),
    "n_pairs": (_COUNT, "Pairs with the baseline that the interval rests on."),
    "loss": (_NUMBER, "Mean loss against the baseline in units of the score, positive where the setting is worse."),
    "low": (_NUMBER, "Lower end of the interval that decides; empty where there is none."),
    "high": (_NUMBER, "Upper end."),
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
    tables: dict[str, Callable[[], pa.Table]] = {name: getattr(store, name) for name in COLUMNS}
    tables["losses"] = lambda: loss_rows(store)
    paths = {name: folder / f"{name}.{form}" for name in tables} | {DICTIONARY: folder / DICTIONARY}
    there = [path for path in paths.values() if path.exists()]
    if there:
        raise RefusedError(f"{there[0]}: already exists. Give another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        rows = {name: _export(read(), paths[name], form) for name, read in tables.items()}
        paths[DICTIONARY].write_text(dictionary(), encoding="utf-8")
    except (OSError, duckdb.IOException) as error:
        why = getattr(error, "strerror", None) or error
        raise StoreError(f"{folder}: cannot be written ({why}). Give another folder.") from error
    return rows


def _export(table: pa.Table, path: Path, form: Format) -> int:
    """Write under a temporary name first, so that an incomplete file never looks complete."""
    temporary = path.with_name(f".{path.name}.tmp")
    if form is Format.PARQUET:
        pq.write_table(table, temporary, compression="zstd")
    else:
        _copy(table, temporary, form)
    temporary.replace(path)
    return len(table)


def _copy(table: pa.Table, path: Path, form: Format) -> None:
    """Write a table as DuckDB's COPY does, with texts that no spreadsheet runs and no terminal obeys."""
    for n, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):  # they are in UTC; DuckDB would need its time zones
            table = table.set_column(n, field.name, table[field.name].cast(pa.timestamp("us")))
    with duckdb.connect() as database:
        text = duckdb.sqltype("VARCHAR")
        database.create_function("cell", csv_cell, [text], text)
        rows = database.from_arrow(table)
        if form is Format.CSV:
            chosen = ", ".join(_csv_columns(table))
            rows.project(chosen).query("rows", f"COPY rows TO {_quoted(str(path))} (FORMAT csv, HEADER)")
            return
        chosen = ", ".join(f"{_json(_name(field.name), field.type)} AS {_name(field.name)}" for field in table.schema)
        rows.project(chosen).query("rows", f"COPY rows TO {_quoted(str(path))} (FORMAT json)")
    lines = path.with_name(f"{path.name}.lines")
    with path.open(encoding="utf-8", newline="\n") as written, lines.open("w", encoding="utf-8", newline="\n") as safe:
        safe.writelines(map(json_line, written))
    lines.replace(path)


def _csv_columns(table: pa.Table) -> Iterator[str]:
    """The columns as expressions of SQL: one per key of a map, lists as JSON."""
    for field in table.schema:
        name = _name(field.name)
        if pa.types.is_map(field.type):
            for key in _keys(table[field.name]):
                yield f"{name}[{_quoted(key)}] AS {_name(str(csv_cell(f'{field.name}.{key}')))}"
        elif pa.types.is_list(field.type):
            yield f"to_json({_json(name, field.type)})::VARCHAR AS {name}"
        elif pa.types.is_string(field.type):
            yield f"cell({name}) AS {name}"
        else:
            yield f"{_time(name)} AS {name}" if pa.types.is_timestamp(field.type) else name


def _json(name: str, kind: pa.DataType) -> str:
    """A column as JSON can represent it: no NaN, times in ISO 8601."""
    if pa.types.is_floating(kind):
        return f"CASE WHEN isfinite({name}) THEN {name} END"
    if pa.types.is_list(kind):
        return f"list_transform({name}, lambda x: {_json('x', kind.value_type)})"
    if pa.types.is_map(kind):
        pair = f"struct_pack(k := e.key, v := {_json('e.value', kind.item_type)})"
        return f"map_from_entries(list_transform(map_entries({name}), lambda e: {pair}))"
    return _time(name) if pa.types.is_timestamp(kind) else name


def _time(name: str) -> str:
    return f"strftime({name}, '%Y-%m-%dT%H:%M:%S.%f+00:00')"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _keys(column: pa.ChunkedArray) -> list[str]:
    """All keys that occur in a column of maps."""
    return sorted({key for chunk in column.chunks if len(chunk) for key in pc.unique(chunk.keys).to_pylist()})


def dictionary() -> str:
    """The data dictionary, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield f"# Columns\n\nOf store version {SCHEMA_VERSION}. `_s` are seconds, `_bytes` bytes, `_j` joules. In CSV a"
    yield "list is JSON; a map has one column per key (best_metrics.accuracy); what is not there is an empty cell.\n"
    for table, columns in {**COLUMNS, "losses": LOSS_COLUMNS}.items():
        yield f"## {table}\n\n{ABOUT[table]}\n\n| column | type | what |\n|---|---|---|"
        for name, (kind, about) in columns.items():
            yield f"| `{name}` | {_type(kind)} | {about} |"
        yield ""


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return f"{kind.key_type} to {kind.item_type}" if pa.types.is_map(kind) else str(kind).replace("[us, tz=UTC]", "")


def loss_rows(store: ResultStore) -> pa.Table:
    """The table, with the columns `LOSS_COLUMNS`."""
    rows = [row for plan in store.sweeps() for row in _of_sweep(store, plan)]
    return pa.Table.from_pylist(rows, schema=pa.schema({name: kind for name, (kind, _) in LOSS_COLUMNS.items()}))


def _of_sweep(store: ResultStore, plan: SweepPlan) -> Iterator[dict[str, Any]]:
    from orchestrator.analysis.decide import loss_table  # loads pandas

    try:
        frame = store.evidence(planned_specs(plan)).frame
    except StoreError as error:  # a plan that this version cannot read keeps nobody from the other tables
        yield {"sweep": plan.name, "group": str(error)}
        return
    if frame.empty:
        return
    first = frame.drop_duplicates("cell").set_index("cell")
    for row in loss_table(frame, plan=plan.asks).to_dict("records"):
        names = {name: first[name][row["cell"]] for name in ("model", "freeze", "setup")}
        finite = {name: float(row[name]) if np.isfinite(row[name]) else None for name in ("loss", "low", "high")}
        yield {"sweep": plan.name, "group": row["group"], **names, "n_pairs": int(row["n_pairs"]), **finite}
