"""A reader of stores that was written from docs/pages/explanation/store.md and the tables of the reference alone.

It imports nothing of this project: what it cannot read, another program cannot read either, and the page must say more.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

KEYS = {
    "epochs": ("trial_id", "attempt", "step"),
    "trials": ("trial_id", "attempt"),
    "tags": ("trial_id", "attempt", "split", "level", "tag"),
    "predictions": ("trial_id", "attempt", "split", "sentence"),
    "contributions": ("trial_id", "attempt", "split"),
    "commits": ("trial_id", "attempt"),
}
NAME = re.compile(r"(part|plan|suggested)-(\d{20})(?:-([0-9a-f]{8}|[0-9a-f]{16}))?\.(parquet|json)")


class RefusedError(Exception):
    """The store must not be read, or an object of it is corrupted."""


def objects(folder: Path, kind: str) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of the objects of a kind, by age. Raises RefusedError."""
    for path in sorted(folder.glob(f"{kind}-*")):
        found, content = NAME.fullmatch(path.name), path.read_bytes()
        if found is None:
            raise RefusedError(f"{path.name} is no name of the store")
        digest = found[3] or ""
        if len(digest) == 16 and hashlib.sha256(content).hexdigest()[:16] != digest:
            raise RefusedError(f"{path.name} does not match its digest")
        yield path.name, content


def read_parts(store: Path, table: str) -> pa.Table:
    """All rows of a table, one per key, with the columns of all parts. Raises RefusedError."""
    marker = json.loads((store / "store.json").read_text())
    if marker["format"] != "permafrost-store" or marker["schema_version"] > 1:
        raise RefusedError("store.json")
    parts = [pq.read_table(pa.BufferReader(content)) for _, content in objects(store / table, "part")]
    if any(int(part.schema.metadata[b"permafrost.schema_version"]) > 1 for part in parts):
        raise RefusedError("a part of a newer version")
    if not parts:
        return pa.table({})
    rows = pa.concat_tables(parts, promote_options="default")
    keys = zip(*(rows[column].to_pylist() for column in KEYS[table]), strict=True)
    return rows.take(list({key: n for n, key in enumerate(keys)}.values()))


def of_attempts(rows: pa.Table, wanted: Collection[tuple[str, int]]) -> pa.Table:
    """The rows of some attempts."""
    pairs = zip(rows["trial_id"].to_pylist(), rows["attempt"].to_pylist(), strict=True)
    return rows.filter(pa.array([pair in wanted for pair in pairs], pa.bool_()))


def newest(rows: pa.Table) -> dict[str, int]:
    """The largest attempt of each trial."""
    pairs = zip(rows["trial_id"].to_pylist(), rows["attempt"].to_pylist(), strict=True) if len(rows) else ()
    return dict(sorted(pairs))


def read(store: Path) -> dict[str, pa.Table]:
    """Every table as a reader shows it. Raises RefusedError."""
    trials = read_parts(store, "trials")
    ended = newest(trials)
    found = {}
    for table in ("trials", "contributions", "predictions", "tags", "epochs"):  # the reverse of the order of commits
        rows = trials if table == "trials" else read_parts(store, table)
        found[table] = of_attempts(rows, {*(newest(rows) | ended).items()}) if len(rows) else rows
    return found


def plan(store: Path, sweep: str) -> list[str]:
    """The trials that a sweep consists of, by their ids. Raises RefusedError."""
    folder = store / "sweeps" / sweep
    _, content = [*objects(folder, "plan")][-1]
    return [trial for trial, _ in json.loads(content)["trials"]]


def digest(table: str, rows: pa.Table) -> str:
    """The digest of the rows of one attempt in a table, as its row in `trials` records it."""
    if not len(rows):
        return ""
    left_out = {"trial_id", "attempt"}
    rows = rows.sort_by([(column, "ascending") for column in KEYS[table] if column not in left_out])
    names = [name for name in sorted(rows.column_names) if name not in left_out and rows[name].null_count < len(rows)]
    content = b"".join(name.encode() + in_bytes(rows[name].to_pylist(), rows.schema.field(name).type) for name in names)
    return f"{hashlib.sha256(content).hexdigest()[:16]}/{len(names)}"


def in_bytes(values: list[Any], kind: pa.DataType) -> bytes:
    """The values of a column for its digest."""
    bits = "".join("01"[value is not None] for value in values)
    valid = bytes(int(bits[n : n + 8].ljust(8, "0"), 2) for n in range(0, len(bits), 8))
    values = [value for value in values if value is not None]
    if pa.types.is_list(kind):
        inner = [element for value in values for element in value]
        return valid + _numbers([len(value) for value in values], pa.int32()) + in_bytes(inner, kind.value_type)
    if pa.types.is_string(kind):
        texts = [value.encode() for value in values]
        return valid + _numbers([len(text) for text in texts], pa.int32()) + b"".join(texts)
    if pa.types.is_timestamp(kind):
        return valid + _numbers(pa.array(values, pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist(), pa.int64())
    return valid + _numbers(values, pa.int64() if pa.types.is_boolean(kind) else kind)


def _numbers(values: list[Any], kind: pa.DataType) -> bytes:
    """Numbers one after the other, little-endian."""
    code = {"int32": "i", "int64": "q", "float": "f", "double": "d"}[str(kind)]
    return struct.pack(f"<{len(values)}{code}", *values)
