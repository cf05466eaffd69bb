"""Immutable Parquet parts in one folder, of this machine or of an object store, each there as a whole or not at all.

Parts are never changed and their names never used again. Compaction writes the rows of some parts into a new one and
takes the old ones away, so a row may stand in two parts for a moment: readers drop duplicates.

Why no manifest decides which parts count. A manifest would be one more object that has to be replaced with each commit,
and what it would give is there without it:

- *A commit is seen whole.* What belongs to a trial lies in four tables and is committed with the trial's own row last
  (`execution.recorder.COMMIT_ORDER`): that row is the commit record. Readers read the trials first and the other
  tables then (`results`), so of a trial whose row they saw they see everything. One part may be split in two objects
  (`Storage.largest_bytes`) for the same reason: until the trial's row is there nothing counts.
- *Compaction loses and doubles nothing.* The new part is there before an old one is taken away, so at any moment each
  row is in some part, and a row that is in two is dropped by its key, which is also what makes a repeated PUT and a
  kill in between harmless. Two compactions at once take away only what each has in a part of its own.
- *A listing in pages shows each row.* Listings of object stores go by name and show all that was there when a page was
  made. The new part's name comes after those of all parts that it replaces, so where an old one is gone from a page,
  the new one is on that page or a later one. A folder of this machine, whose listing has no order, is read twice.
- *A part may vanish between listing and reading.* Then everything is listed again.
- *A part whose bytes changed is not read.* Its name holds their digest (`names`), and compaction, which would write
  what it reads under a new one, reads as everybody does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.storage.errors import BrokenError, NewerError
from orchestrator.storage.storage import Storage
from orchestrator.store.encoding import encoded, rewritten
from orchestrator.store.names import WRONG_DIGEST, is_intact, stamped
from orchestrator.store.schema import SCHEMA_VERSION, VERSION_KEY
from trials.errors import StoreError

T = TypeVar("T")

PART_BYTES = 8 * 2**20  # that compaction puts together
_ATTEMPTS = 20  # a part may vanish between listing and reading while another process compacts


class PartFolder:
    """The parts of one table."""

    def __init__(self, storage: Storage, schema: pa.Schema) -> None:
        self.storage = storage
        self.schema = schema.with_metadata({VERSION_KEY: str(SCHEMA_VERSION)})

    def names(self) -> list[str]:
        """The committed parts, oldest first."""
        return list(self.sizes())

    def sizes(self) -> dict[str, int]:
        """The bytes of each committed part, oldest first."""
        return {name: size for name, size in self.storage.files().items() if is_part(name)}

    def append(self, rows: Sequence[dict[str, object]]) -> None:
        """Commit rows as a new part.

        Raises:
            StoreError: the storage cannot be written.
        """
        self.append_table(pa.Table.from_pylist(list(rows), schema=self.schema))

    def append_table(self, rows: pa.Table) -> None:
        """Commit rows that have this table's columns. Raises as `append` does."""
        if len(rows):
            self.write(rows.replace_schema_metadata(self.schema.metadata), time.time_ns())

    def read(self, trial_id: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of all parts, or those of one trial, oldest part first; duplicates are the caller's.

        With `columns` only these, in the table's order: of a trial's row its spec and versions are most of the bytes.

        Raises:
            StoreError: a part is not Parquet or comes from a newer version, or the storage cannot be read.
        """
        if columns is not None:
            columns = [name for name in self.schema.names if name in columns]
        none = self.schema.empty_table() if columns is None else self.schema.empty_table().select(columns)
        _, tables = self.read_each(lambda name: self._read_part(name, trial_id, columns))
        return pa.concat_tables([none, *tables.values()])

    def read_each(self, read: Callable[[str], T]) -> tuple[dict[str, int], dict[str, T]]:
        """The bytes of each committed part, and what `read` makes of it, oldest first.

        Where a part vanishes (`read` raises FileNotFoundError), what is there is listed again; parts never change, so
        those that were read are kept, and only new ones are read.

        Raises:
            StoreError: parts vanish again and again; or as the place and `read` do.
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
            f"{self.storage}: parts vanish while they are read. Try again when nothing compacts the store."
        )

    def compact(self) -> None:
        """Put neighbours in age together, up to `PART_BYTES` or what the place's objects may hold. Killed at any moment
        it loses none.

        A part that has its size is left alone, and rows are rewritten a group at a time, so this takes the time of what
        came since, and the memory of a few groups, however large the table is.

        Raises:
            StoreError: as `read` does; or old parts could not be taken away, which harms nothing.
        """
        for old in list(_runs(self.sizes(), min(PART_BYTES, self.storage.largest_bytes or PART_BYTES))):
            try:
                contents = self.storage.each(self.storage.read, old)
            except FileNotFoundError:  # another process compacts at the moment
                return
            parts = zip(old, contents, strict=True)
            rows = (group for name, content in parts for group in self._groups(name, pa.py_buffer(content)))
            # It takes its parts' place in the order, behind all of them.
            self._commit(rewritten(rows, self.storage.largest_bytes), stamp_of(old[-1]) + 1)
            self.storage.each(self.storage.delete, old)

    def _read_part(self, name: str, trial_id: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        with self.storage.open(name) as file:
            return self.decoded(name, file.read_buffer(), trial_id, columns)

    def decoded(
        self, name: str, content: pa.Buffer, trial_id: str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows of a part, or those of one trial, from its bytes; of all columns, or of some in the table's order.

        Raises:
            NewerError: a newer version wrote it.
            BrokenError: it is not what was written, or not ours.
        """
        self._check_digest(name, content)
        wanted = None if trial_id is None else [("trial_id", "==", trial_id)]
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        with self._readable(name):
            there = (
                None if columns is None else [n for n in pq.read_schema(pa.BufferReader(content)).names if n in columns]
            )
            table = pq.read_table(pa.BufferReader(content), partitioning=None, filters=wanted, columns=there)
        return self._todays(name, table, schema)

    def _groups(self, name: str, content: pa.Buffer) -> Iterator[pa.Table]:
        """All rows of a part, one of its row groups at a time. Raises as `decoded` does.

        Without Arrow's threads: each of them would keep memory of its own.
        """
        self._check_digest(name, content)
        with self._readable(name):
            file = pq.ParquetFile(pa.BufferReader(content))
        for index in range(file.num_row_groups):
            with self._readable(name):
                group = file.read_row_group(index, use_threads=False)
            yield self._todays(name, group, self.schema)

    def _check_digest(self, name: str, content: pa.Buffer) -> None:
        if not is_intact(name, content):
            raise BrokenError(f"{self.storage}/{name}", f"not a readable Parquet file ({WRONG_DIGEST})")

    @contextmanager
    def _readable(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise BrokenError(f"{self.storage}/{name}", f"not a readable Parquet file ({error})") from error

    def _todays(self, name: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
        """What was read of a part, with the columns of today."""
        path = f"{self.storage}/{name}"
        with self._readable(name):
            table.validate(full=True)  # Parquet readers take any bytes for a text
        mark = (table.schema.metadata or {}).get(VERSION_KEY, b"")
        version = int(mark) if mark.isdigit() and len(mark) < 9 else 0
        if version > SCHEMA_VERSION:
            raise NewerError(
                path, f"written by a newer version (schema {version}, this one reads up to {SCHEMA_VERSION})"
            )
        if version < 1:
            raise BrokenError(path, "not written by permafrost")
        try:
            return _fill(table, schema.with_metadata(self.schema.metadata))
        except pa.ArrowException as error:
            raise BrokenError(path, f"a column has another type ({error})") from error

    def write(self, table: pa.Table, stamp_ns: int) -> list[str]:
        """Commit rows as parts of a certain age and return their names. Raises as `append` does."""
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


def stamp_of(name: str) -> int:
    """The age of a part, in the nanoseconds of its name."""
    digits = name.removeprefix("part-").removesuffix(".parquet").partition("-")[0]
    return int(digits) if digits.isdigit() else time.time_ns()


def _runs(sizes: Mapping[str, int], limit: int) -> Iterator[list[str]]:
    """Neighbours in age that fit into one part, where there are two at least."""
    groups: list[list[str]] = [[]]
    total = 0
    for name, size in sizes.items():
        if total + size > limit:
            groups, total = [*groups, []], 0
        groups[-1].append(name)
        total += size
    return (group for group in groups if len(group) > 1)


def _fill(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Bring an older part to today's columns: nulls where it has none."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
