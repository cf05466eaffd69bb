"""Immutable Parquet parts in one folder: written whole under a temporary name, then renamed.

A reader sees a part or does not; there is no half of one. Parts are never changed. Compaction writes their rows into
one new part and takes the old ones away, so a row may stand in two parts for a moment: readers drop duplicates.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.store.schema import SCHEMA_VERSION, VERSION_KEY
from trials.errors import StoreError

_ATTEMPTS = 5  # a part may vanish between listing and reading while another process compacts


class PartFolder:
    """The parts of one table."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self.schema = schema.with_metadata({VERSION_KEY: str(SCHEMA_VERSION)})

    def names(self) -> list[Path]:
        """The committed parts, oldest first."""
        return sorted(self.folder.glob("part-*.parquet"))

    def append(self, rows: Sequence[dict[str, object]]) -> None:
        """Commit rows as a new part."""
        if rows:
            self._write(pa.Table.from_pylist(list(rows), schema=self.schema))

    def read(self, trial_id: str | None = None) -> pa.Table:
        """All rows of all parts, or those of one trial, oldest part first; duplicates are the caller's.

        Raises:
            StoreError: a part is not Parquet or comes from a newer version.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return self._concat(self.names(), trial_id)
            except FileNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def compact(self) -> None:
        """Put all rows into one part. Killed at any moment it loses none."""
        old = self.names()
        if len(old) > 1:
            try:
                rows = self._concat(old)
            except FileNotFoundError:  # another process compacts at the moment
                return
            self._write(rows)
            for path in old:
                path.unlink(missing_ok=True)

    def _concat(self, paths: Sequence[Path], trial_id: str | None = None) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *(self._read_part(path, trial_id) for path in paths)])

    def _read_part(self, path: Path, trial_id: str | None) -> pa.Table:
        wanted = None if trial_id is None else [("trial_id", "==", trial_id)]
        try:
            table = pq.read_table(path, partitioning=None, filters=wanted)
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowInvalid) as error:
            raise StoreError(f"{path}: not a readable Parquet file ({error}). Move it out of the store.") from error
        mark = (table.schema.metadata or {}).get(VERSION_KEY, b"")
        version = int(mark) if mark.isdigit() else 0
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{path}: written by a newer version (schema {version}, this one reads up to {SCHEMA_VERSION}). "
                "Upgrade permafrost-sweeps."
            )
        if version < 1:
            raise StoreError(f"{path}: not written by permafrost. Move it out of the store.")
        try:
            return _fill(table, self.schema)
        except pa.ArrowException as error:
            raise StoreError(f"{path}: a column has another type ({error}). Move it out of the store.") from error

    def _write(self, table: pa.Table) -> None:
        # Time first, so that names sort by age; the random end keeps two writers apart.
        name = f"part-{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.parquet"
        temporary = self.folder / f".{name}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                pq.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.folder / name)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise StoreError(
                f"{self.folder}: cannot be written ({error.strerror}). What was committed before is whole."
            ) from error


def _fill(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Bring an older part to today's columns: nulls where it has none."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
