"""Immutable Parquet parts in one folder or prefix, each written atomically.

Parts never change and their names are never reused. Compaction writes the rows of some parts into a new one and then
deletes the old ones, so a row may be in two parts for a moment: readers drop duplicates.

Why there is no manifest of the valid parts: it would be one more object that each commit has to replace, and what it
would guarantee is guaranteed without it:

- *Commits are atomic.* The rows of a trial are in several tables and are committed with the trial's own row last
  (`contents.COMMIT_ORDER`): that row is the commit record. It holds the number and a digest of the trial's rows in each
  other table (`row_digests`), so that a lost part is noticed. Of the commit record itself only `commits`, which is
  written after it, has a copy of the key. Readers read the trials first and then the other tables
  (`results`), so they see everything that belongs to a trial whose row they have seen. For the same reason a part may
  be split into two objects (`Storage.largest_bytes`): nothing counts before the trial's row exists.
- *Compaction neither loses nor duplicates rows.* The new part exists before an old one is deleted, so each row is in
  some part at any moment. A row that is in two parts is dropped by its key, which also makes a repeated PUT or a kill
  harmless. Of two concurrent compactions each deletes only what is in a part of its own.
- *A paged listing shows each row.* Object stores list by name, and a page shows all that existed when it was made. The
  new part's name sorts after those of all parts that it replaces, so if an old one is missing from a page, the new one
  is on that page or a later one. A local folder, whose listing has no order, is read twice.
- *A part may vanish between listing and reading.* Then everything is listed again.
- *A corrupted part is not read.* Its name contains its digest (`names`), and compaction verifies it like any reader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.storage.storage import BrokenError, NewerError, Storage
from orchestrator.store.parquet_files import decoded_bytes, encoded, rewritten
from orchestrator.store.schema import (
    SCHEMA_VERSION,
    VERSION_KEY,
    WRONG_DIGEST,
    is_intact,
    proven_reads,
    read_intact,
    stamp_of,
    stamped,
    unusable,
)
from trials.errors import StoreError, is_out_of_memory

T = TypeVar("T")

PART_BYTES = 8 * 2**20  # size of a compacted part
LARGEST_BYTES = 2 * 10**9  # in memory; `PART_BYTES` become a hundred times as much at most
_ATTEMPTS = 20  # parts vanish while another process compacts


class PartFolder:
    """The parts of one table. One with a row that no reader can use (`schema.unusable`) counts as broken."""

    def __init__(self, storage: Storage, schema: pa.Schema) -> None:
        self.storage = storage
        self.schema = schema.with_metadata({VERSION_KEY: str(SCHEMA_VERSION)})

    def names(self) -> list[str]:
        """The committed parts, oldest first."""
        return list(self.sizes())

    def sizes(self) -> dict[str, int]:
        """The size in bytes of each committed part, oldest first."""
        return {name: size for name, size in self.storage.files("part-", "part.").items() if is_part(name)}

    def append(self, rows: Sequence[dict[str, object]]) -> None:
        """Commit rows as a new part. Raises StoreError."""
        self.append_table(pa.Table.from_pylist(list(rows), schema=self.schema))

    def append_table(self, rows: pa.Table) -> None:
        """Commit rows that have this table's columns. Raises as `append` does."""
        if len(rows):
            self.write(rows.replace_schema_metadata(self.schema.metadata), time.time_ns())

    def read(self, trial_id: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of all parts, or those of one trial, oldest part first; may contain duplicates.

        With `columns` only these, in the table's order: most bytes of a trial's row are its spec and versions.

        Raises:
            StoreError: a part is not Parquet or comes from a newer version, or the storage cannot be read.
        """
        if columns is not None:
            columns = [name for name in self.schema.names if name in columns]
        none = pa.Table.from_batches([], self.schema)  # `empty_table` would import pandas, which takes 0.3 s
        none = none if columns is None else none.select(columns)
        _, tables = self.read_each(lambda name: self._read_part(name, trial_id, columns))
        return pa.concat_tables([none, *tables.values()])

    def read_each(self, read: Callable[[str], T]) -> tuple[dict[str, int], dict[str, T]]:
        """The size of each committed part and the result of `read` for it, oldest first.

        If a part vanishes (`read` raises FileNotFoundError), parts are listed again; they never change, so only new
        ones are read.

        Raises:
            StoreError: parts keep vanishing; or as the storage and `read` do.
        """
        kept: dict[str, T] = {}

        def take(name: str) -> None:
            if name not in kept:
                kept[name] = read(name)

        for _ in range(_ATTEMPTS):
            sizes = self.sizes()
            with suppress(FileNotFoundError):
                self.storage.each(take, list(sizes))
                return sizes, {name: kept[name] for name in sizes}
        raise StoreError(
            f"{self.storage}: parts vanish while they are read. Try again when no process compacts the store."
        )

    def compact(self) -> None:
        """Merge parts of neighbouring age, up to `PART_BYTES` or the storage's limit. A kill at any moment loses none.
        Raises StoreError as `read` does; or old parts could not be deleted, which is harmless.

        Parts of full size are left alone and rows are rewritten a group at a time, so the time depends on what is new
        since the last compaction, and the memory on a few groups, however large the table is.
        """
        for old in list(_runs(self.sizes(), min(PART_BYTES, self.storage.largest_bytes or PART_BYTES))):
            try:
                contents = self.storage.each(proven_reads(self.storage).read, old)
            except FileNotFoundError:  # another process is compacting
                return
            parts = zip(old, contents, strict=True)
            rows = (group for name, content in parts for group in self._groups(name, pa.py_buffer(content)))
            # It takes the position of its parts in the order, after all of them.
            self._commit(rewritten(rows, self.storage.largest_bytes), stamp_of(old[-1]) + 1)
            self.storage.each(self.storage.delete, old)

    def _read_part(self, name: str, trial_id: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        return self.decoded(name, read_intact(self.storage, name), trial_id, columns)

    def decoded(
        self, name: str, content: pa.Buffer, trial_id: str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows of a part, or those of one trial, from its bytes; with all columns, or some in the table's order.

        Raises:
            NewerError: a newer version wrote it.
            BrokenError: it is corrupted, or not a part.
        """
        self._check_digest(name, content)
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        with self._readable(name):
            file = self._bounded(content, columns)
            there = None if columns is None else [name for name in file.schema_arrow.names if name in columns]
            if trial_id is None:
                table = file.read(there)  # `read_table` would import pandas
            else:
                wanted = [("trial_id", "==", trial_id)]
                table = pq.read_table(pa.BufferReader(content), partitioning=None, filters=wanted, columns=there)
        return self._upgraded(name, table, schema)

    def _groups(self, name: str, content: pa.Buffer) -> Iterator[pa.Table]:
        """All rows of a part, one row group at a time. Raises as `decoded` does.

        Without Arrow's threads, as each of them would keep memory of its own.
        """
        self._check_digest(name, content)
        with self._readable(name):
            file = self._bounded(content)
        for index in range(file.num_row_groups):
            with self._readable(name):
                group = file.read_row_group(index, use_threads=False)
            yield self._upgraded(name, group, self.schema)

    def _check_digest(self, name: str, content: pa.Buffer) -> None:
        if not is_intact(name, content):
            raise BrokenError(f"{self.storage}/{name}", f"not a readable Parquet file ({WRONG_DIGEST})")

    def _bounded(self, content: pa.Buffer, columns: Sequence[str] | None = None) -> pq.ParquetFile:
        """The file, unless its rows (of these columns) take more memory than those of any part that was written."""
        file = pq.ParquetFile(pa.BufferReader(content))
        if (n_bytes := decoded_bytes(content, columns)) > LARGEST_BYTES:
            raise pa.ArrowInvalid(f"its rows take over {min(n_bytes, 10**15) / 1e9:.0f} GB of memory")
        return file

    @contextmanager
    def _readable(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, pa.ArrowException) as error:
            if is_out_of_memory(error):  # which says nothing of the part
                raise MemoryError(str(error)) from error
            raise BrokenError(f"{self.storage}/{name}", f"not a readable Parquet file ({error})") from error

    def _upgraded(self, name: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows of a part with the current columns."""
        path = f"{self.storage}/{name}"
        with self._readable(name):
            table.validate(full=True)  # Parquet readers accept any bytes as text
            if len(set(table.column_names)) < table.num_columns:
                raise pa.ArrowInvalid("two columns have the same name")
        mark = (table.schema.metadata or {}).get(VERSION_KEY, b"")
        version = int(mark) if mark.isdigit() and len(mark) < 9 else 0
        if version > SCHEMA_VERSION:
            raise NewerError(
                path, f"written by a newer version (schema {version}, this one reads up to {SCHEMA_VERSION})"
            )
        if version < 1:
            raise BrokenError(path, "not written by permafrost")
        try:
            filled = _fill(table, schema.with_metadata(self.schema.metadata))
        except pa.ArrowException as error:
            raise BrokenError(path, f"a column has another type ({error})") from error
        if wrong := unusable(filled):
            raise BrokenError(path, wrong)
        return self.storage.owned(name, filled)

    def write(self, table: pa.Table, stamp_ns: int) -> list[str]:
        """Commit rows as parts with this time in their names, which are returned. Raises as `append` does."""
        return self._commit(encoded(table, self.storage.largest_bytes), stamp_ns)

    def _commit(self, contents: Sequence[pa.Buffer], stamp_ns: int) -> list[str]:
        names = []
        for n, content in enumerate(contents):
            names.append(stamped("part", stamp_ns + n, content, "parquet"))
            self.storage.write(names[-1], content)
        return names


def is_part(name: str) -> bool:
    """Whether a file of this name is a committed part."""
    return name.startswith("part-") and name.endswith(".parquet")


def _runs(sizes: Mapping[str, int], limit: int) -> Iterator[list[str]]:
    """Groups of two or more neighbouring parts that fit into one."""
    groups: list[list[str]] = [[]]
    total = 0
    for name, size in sizes.items():
        if total + size > limit:
            groups, total = [*groups, []], 0
        groups[-1].append(name)
        total += size
    return (group for group in groups if len(group) > 1)


def _fill(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add the columns that an older part lacks, as nulls."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
