"""Export the newest attempt of each trial in a store: as tables for other programs, or as a copy of the store."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from orchestrator.store.plans import stored_spec
from orchestrator.store.results import ResultStore
from orchestrator.store.schema import COLUMNS, COMMIT_ORDER, KEYS, SCHEMA_VERSION
from orchestrator.store.sweep_notes import notes_by_sweep, write_note
from trials.corpora.corpus import SPLITS
from trials.errors import RefusedError, StoreError
from trials.escaping import csv_cell, json_text

DICTIONARY = "columns.md"
ABOUT = {
    "epochs": "A row an evaluation on dev, of each trial's newest attempt.",
    "trials": "One row per trial that has ended, by its newest attempt. Only `completed` ones belong in a mean.",
    "tags": "One row per label of each scored split, with the weights of the best epoch.",
    "predictions": "One row per sentence or text of each scored split, with the weights of the best epoch.",
    "contributions": "A row a scored split, with the weights of the best epoch: the score, sentence by sentence.",
}


class Format(StrEnum):
    """The file format: `csv` for spreadsheets, `parquet` with all types and every bit.

    In CSV a text that a spreadsheet would run as a formula gets an apostrophe before it; numbers do not.
    """

    CSV = "csv"
    PARQUET = "parquet"


def export_tables(store: ResultStore, folder: Path, form: Format) -> dict[str, int]:
    """Write every table and a description of the columns into a folder; the number of rows of each table.

    Raises:
        RefusedError: one of the files already exists.
        StoreError: the folder cannot be written.
    """
    paths = {name: folder / f"{name}.{form}" for name in COLUMNS} | {DICTIONARY: folder / DICTIONARY}
    there = [path for path in paths.values() if path.exists()]
    if there:
        raise RefusedError(f"{there[0]}: already exists. Give another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        rows = {name: _export(getattr(store, name)(), paths[name], form) for name in COLUMNS}
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
        _write_csv(table, temporary)
    temporary.replace(path)
    return len(table)


def _write_csv(table: pa.Table, path: Path) -> None:
    """Write a table with texts that no spreadsheet runs and no terminal obeys, and numbers to the bit."""
    csv.write_csv(pa.table(dict(_csv_columns(table))), path, csv.WriteOptions(quoting_style="needed"))


def _csv_columns(table: pa.Table) -> Iterator[tuple[str, pa.Array | pa.ChunkedArray]]:
    """The columns as CSV has them: one per key of a map, lists as JSON, times in UTC."""
    for field in table.schema:
        column = table[field.name]
        if pa.types.is_map(field.type):
            for key in _keys(column):
                yield str(csv_cell(f"{field.name}.{key}")), pc.map_lookup(column, key, "first")
        elif pa.types.is_list(field.type):
            lists = (None if value is None else json.dumps(_finite(value)) for value in column.to_pylist())
            yield field.name, pa.array(lists, pa.string())
        elif pa.types.is_string(field.type):
            yield field.name, pa.array(map(csv_cell, column.to_pylist()), pa.string())
        elif pa.types.is_timestamp(field.type):
            yield field.name, pc.strftime(column.cast(pa.timestamp("us")), "%Y-%m-%dT%H:%M:%S+00:00")
        else:
            yield field.name, column


def _finite(value: Any) -> Any:
    """A list as JSON can represent it: null for what is no finite number."""
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _keys(column: pa.ChunkedArray) -> list[str]:
    """All keys that occur in the maps of a column."""
    return sorted({key for chunk in column.chunks if len(chunk) for key in pc.unique(chunk.keys).to_pylist()})


def dictionary() -> str:
    """The data dictionary, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield f"# Columns\n\nOf store version {SCHEMA_VERSION}. `_s` are seconds, `_bytes` bytes, `_j` joules. In CSV a"
    yield "list is JSON; a map has one column per key (best_metrics.accuracy); what is not there is an empty cell.\n"
    for table, columns in COLUMNS.items():
        yield f"## {table}\n\n{ABOUT[table]}\n\n| column | type | what |\n|---|---|---|"
        for name, (kind, about) in columns.items():
            yield f"| `{name}` | {_type(kind)} | {about} |"
        yield ""


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return f"{kind.key_type} to {kind.item_type}" if pa.types.is_map(kind) else str(kind).replace("[us, tz=UTC]", "")


def export_store(store: ResultStore, folder: Path) -> dict[str, int]:
    """Write a compact copy of a store into a folder, to be given away: the newest attempt of each ended trial and the
    newest plan and note of each sweep, without weights, checkpoints and this machine's folders; the rows of each table.

    Of every path in a spec the last two parts stay, as in `my-treebank/dev.conllu`; no trial's id depends on them. What
    is broken is left out, with the completed trials that lost rows by it.

    Raises:
        RefusedError: the folder is not empty.
        StoreError: the store cannot be read, or the folder cannot be written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise RefusedError(f"{folder}: is not empty. Give a new folder.")
    rows: dict[str, list[dict[str, Any]]] = {table: getattr(store, table)().to_pylist() for table in COLUMNS}
    lost = store.lost_attempts()
    rows["trials"] = [
        row
        for row in rows["trials"]
        if _has_spec(row["spec"], row["trial_id"]) and (row["trial_id"], row["attempt"]) not in lost
    ]
    for row in rows["trials"]:
        row["spec"] = json_text(without_folders(json.loads(row["spec"])))
    ended = {row["trial_id"] for row in rows["trials"]}
    rows["commits"] = [{name: row[name] for name in KEYS["commits"]} for row in rows["trials"]]
    new = ResultStore(folder)
    for table in COMMIT_ORDER:
        rows[table] = [row for row in rows[table] if row["trial_id"] in ended]
        if rows[table]:
            new.append(table, rows[table])
    for plan in store.sweeps():
        shown = tuple((trial_id, without_folders(spec)) for trial_id, spec in plan.trials if _has_spec(spec, trial_id))
        new.add_plan(replace(plan, source=_last_parts(plan.source), trials=shown))
    for sweep, note in notes_by_sweep(store.storage).items():
        write_note(new.storage, sweep, note)
    return {table: len(of_table) for table, of_table in rows.items() if table in COLUMNS}


def _has_spec(content: str | Mapping[str, Any] | None, trial_id: str) -> bool:
    try:
        stored_spec(content, trial_id)
    except StoreError:
        return False
    return True


def without_folders(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as JSON values with the last two parts of every path."""
    data = {key: [*map(_last_parts, spec["data"][key] or ())] for key in SPLITS if key in spec["data"]}
    model = {"path": _last_parts(spec["model"]["path"])}
    return {**spec, "data": {**spec["data"], **data}, "model": {**spec["model"], **model}}


def _last_parts(path: str) -> str:
    return "/".join(Path(path).parts[-2:])
