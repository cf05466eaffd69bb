"""A reader of stores that was written from docs/pages/explanation/store.md and the tables of the reference alone.

It imports nothing of this project: what it cannot read, another program cannot read either, and the page must say more.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path

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
NAME = re.compile(r"(part|plan|suggested)-(\d{20})-([0-9a-f]{16})\.(parquet|json)")


class RefusedError(Exception):
    """The store must not be read."""


def objects(folder: Path, kind: str) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of the intact objects of a kind, by age."""
    for path in sorted(folder.glob(f"{kind}-*")):
        found, content = NAME.fullmatch(path.name), path.read_bytes()
        if found is not None and hashlib.sha256(content).hexdigest()[:16] == found[3]:
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
