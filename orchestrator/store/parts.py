"""Immutable Parquet parts in one folder or prefix, each written atomically.

Parts never change and their names are never reused. Compaction writes the rows of some parts into a new one and then
deletes the old ones, so a row may be in two parts for a moment: readers drop duplicates.

    follower = Follower(store.storage, "epochs", ["trial_id", "step", "score"])
    changes = follower.poll()      # first all parts, then only new ones

There is no manifest of the valid parts. It would be one more object that each commit has to replace, and what it would
guarantee holds without it:

- *Commits are atomic.* The rows of a trial are in several tables and are committed with the trial's own row last
  (`schema.COMMIT_ORDER`): that row is the commit record. It holds the number of the trial's rows in each other table
  (`row_counts`), so that a lost part is noticed. The key of the commit record itself is copied to `commits` only, which
  is written after it. Readers read the trials first and then the other tables (`results`), so they see everything that
  belongs to a trial whose row they have seen. For the same reason a part may be split into two objects
  (`Storage.largest_bytes`): nothing counts before the trial's row exists.
- *Compaction neither loses nor duplicates rows.* The new part exists before an old one is deleted, so each row is in
  some part at any moment. Readers drop the second copy of a row by its key, which also makes a repeated PUT or a kill
  harmless. Each of two concurrent compactions deletes only parts whose rows it has written into its own.
- *A paged listing misses no row.* Object stores list by name, and a page shows all that existed when it was made. The
  new part's name sorts after those of all parts that it replaces, so if an old one is missing from a page, the new one
  is on that page or a later one. A local folder, whose listing has no order, is read twice.
- *A part may vanish between listing and reading.* Then everything is listed again.
- *A corrupted part is left out.* The digest in its name covers every byte, even those between Parquet's pages, which
  the pages' own checksums miss. Readers report the part, the next launch reruns the trials whose rows it held, and
  compaction leaves it where it is.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from orchestrator.storage.storage import BrokenError, NewerError, Storage
from orchestrator.store.schema import (
    SCHEMA_VERSION,
    TABLES,
    VERSION_KEY,
    WRONG_DIGEST,
    is_intact,
    read_intact,
    stamp_of,
    stamped_name,
    unusable,
)
from trials.errors import StoreError, is_out_of_memory
from trials.escaping import escape_line

T = TypeVar("T")

PART_BYTES = 8 * 2**20  # size of a compacted part
LARGEST_BYTES = 2 * 10**9  # most memory for the rows of a part: decoding expands `PART_BYTES` a hundredfold at most
GROUP_BYTES = 4 * 2**20  # memory for the rows that are rewritten together and form a row group
_ATTEMPTS = 20  # parts vanish while another process compacts
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BrokenPart:
    """A part that cannot be read.

    Attributes:
        newer: Whether it is intact, but was written by a newer version.
    """

    name: str
    wrong: str
    newer: bool


@functools.cache
def report(problem: str) -> None:
    """Warn about something that readers leave out, once per process: on stderr, unless logging is set up otherwise."""
    _log.warning("%s", escape_line(problem))


def unusable_warning(place: str, wrong: str) -> str:
    """The warning about a file that cannot be used: what it is, and what to do."""
    return (
        f"{place}: {wrong}. It is left out, and the same launch runs again what it held. Then delete it, or write a "
        "clean store with `permafrost export store`."
    )


class PartFolder:
    """The parts of one table. A part with a row that no reader can use (`schema.unusable`) counts as broken."""

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

        Given `columns`, only these are read, in the table's order: most bytes of a trial's row are its spec and
        versions. Broken parts are reported and left out.

        Raises:
            StoreError: a part comes from a newer version, or the storage cannot be read.
        """
        if columns is not None:
            columns = [name for name in self.schema.names if name in columns]
        none = pa.Table.from_batches([], self.schema)  # `empty_table` would import pandas, which takes 0.3 s
        none = none if columns is None else none.select(columns)

        def take(name: str) -> pa.Table:
            try:
                return self.decode(name, self._content(name), trial_id, columns)
            except NewerError:
                raise
            except BrokenError as error:
                report(unusable_warning(f"{self.storage}/{name}", error.wrong))
                return none

        _, tables = self.read_each(take)
        return pa.concat_tables([none, *tables.values()])

    def read_part(self, name: str, columns: Sequence[str] | None = None) -> pa.Table | BrokenPart:
        """The rows of a part, with all columns of `schema` or some; a `BrokenPart` if it cannot be read.

        Raises:
            FileNotFoundError: it no longer exists.
        """
        try:
            return self.decode(name, read_intact(self.storage, name), columns=columns)
        except FileNotFoundError:
            raise
        except OSError as error:
            return BrokenPart(name, f"cannot be read ({error.strerror or error})", newer=False)
        except BrokenError as error:
            return BrokenPart(name, error.wrong, newer=isinstance(error, NewerError))

    def read_each(self, read: Callable[[str], T]) -> tuple[dict[str, int], dict[str, T]]:
        """The size of each committed part and the result of `read` for it, oldest first.

        If a part vanishes (`read` raises FileNotFoundError), parts are listed again; they never change, so only new
        ones are read.

        Raises:
            StoreError: parts keep vanishing, or the storage or `read` raises it.
        """
        kept: dict[str, T] = {}

        def take(name: str) -> None:
            if name not in kept:
                kept[name] = read(name)

        for _ in range(_ATTEMPTS):
            sizes = self.sizes()
            with suppress(FileNotFoundError):
                self.storage.map(take, list(sizes))
                return sizes, {name: kept[name] for name in sizes}
        raise StoreError(
            f"{self.storage}: parts vanish while they are read. Try again when no process compacts the store."
        )

    def compact(self) -> None:
        """Merge parts of neighbouring age, up to `PART_BYTES` or the storage's limit. Being killed loses no row.
        Raises StoreError: the storage cannot be read, or old parts could not be deleted, which is harmless.

        Parts of full size are left alone and rows are rewritten a group at a time. So the time depends on what is new
        since the last compaction, and the memory on a few groups, however large the table is.
        """
        for run in list(_runs(self.sizes(), min(PART_BYTES, self.storage.largest_bytes or PART_BYTES))):
            try:
                contents = dict(zip(run, self.storage.map(self._content, run), strict=True))
            except FileNotFoundError:  # another process is compacting
                return
            old = [name for name in run if is_intact(name, contents[name])]
            if len(old) < 2:
                continue
            rows = (group for name in old for group in self._groups(name, contents[name]))
            with suppress(BrokenError):
                # The new part sorts directly after the parts that it replaces, so the order of rows stays.
                self._commit(rewrite(rows, self.storage.largest_bytes), stamp_of(old[-1]) + 1)
                self.storage.map(self.storage.delete, old)

    def _content(self, name: str) -> pa.Buffer:
        """The bytes of a part. Raises FileNotFoundError and StoreError."""
        try:
            return read_intact(self.storage, name)
        except FileNotFoundError:
            raise
        except OSError as error:
            wrong = f"{self.storage}/{name}: cannot be read ({error.strerror or error})"
            raise StoreError(
                f"{wrong}. Make it readable, or delete it: the same launch runs again what was in it."
            ) from error

    def decode(
        self, name: str, content: pa.Buffer, trial_id: str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows of a part from its bytes, or those of one `trial_id`; all columns, or the given in the table's
        order.

        Raises:
            NewerError: a newer version wrote it.
            BrokenError: it is corrupted, or not a part.
        """
        self._check_digest(name, content)
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        with self._readable(name):
            file = self._open_bounded(content, columns)
            there = None if columns is None else [name for name in file.schema_arrow.names if name in columns]
            if trial_id is None:
                table = file.read(there)  # `read_table` would import pandas
            else:
                wanted = [("trial_id", "==", trial_id)]
                table = pq.read_table(pa.BufferReader(content), partitioning=None, filters=wanted, columns=there)
        return self._upgrade(name, table, schema)

    def _groups(self, name: str, content: pa.Buffer) -> Iterator[pa.Table]:
        """All rows of a part, one row group at a time. Raises as `decode` does.

        Arrow's threads are not used, as each of them would hold on to memory of its own.
        """
        self._check_digest(name, content)
        with self._readable(name):
            file = self._open_bounded(content)
        for index in range(file.num_row_groups):
            with self._readable(name):
                group = file.read_row_group(index, use_threads=False)
            yield self._upgrade(name, group, self.schema)

    def _check_digest(self, name: str, content: pa.Buffer) -> None:
        if not is_intact(name, content):
            raise BrokenError(f"{self.storage}/{name}", f"not a readable Parquet file ({WRONG_DIGEST})")

    def _open_bounded(self, content: pa.Buffer, columns: Sequence[str] | None = None) -> pq.ParquetFile:
        """The opened file. Raises ArrowInvalid if its rows, or these columns, need more memory than `LARGEST_BYTES`."""
        file = pq.ParquetFile(pa.BufferReader(content))
        if (n_bytes := decoded_bytes(content, columns)) > LARGEST_BYTES:
            raise pa.ArrowInvalid(f"its rows take over {min(n_bytes, 10**15) / 1e9:.0f} GB of memory")
        return file

    @contextmanager
    def _readable(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, pa.ArrowException) as error:
            if is_out_of_memory(error):  # the part itself may be fine
                raise MemoryError(str(error)) from error
            raise BrokenError(f"{self.storage}/{name}", f"not a readable Parquet file ({error})") from error

    def _upgrade(self, name: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows of a part with the columns of the current version. Raises BrokenError and NewerError."""
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
        return self.storage.owned_rows(name, filled)

    def write(self, table: pa.Table, stamp_ns: int) -> list[str]:
        """Commit rows as parts with this time in their names; return the names. Raises as `append` does."""
        return self._commit(encode(table, self.storage.largest_bytes), stamp_ns)

    def _commit(self, contents: Sequence[pa.Buffer], stamp_ns: int) -> list[str]:
        names = []
        for n, content in enumerate(contents):
            names.append(stamped_name("part", stamp_ns + n, content, "parquet"))
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


def repeated_rows(rows: pa.Table, keys: Sequence[str]) -> list[list[int]]:
    """The indices, ascending, of the rows of each key (their values in the columns `keys`) that occurs repeatedly."""
    names = list(keys)
    numbered = rows.select(names).append_column("at", pa.array(range(len(rows)), pa.int64()))
    counts = numbered.group_by(names).aggregate([("at", "count")])
    many = counts.filter(pc.greater(counts["at_count"], 1)).select(names)
    if not len(many):  # the usual case, which needs no lists of row indices
        return []
    groups = numbered.join(many, names, join_type="inner").group_by(names).aggregate([("at", "list")])
    return sorted(sorted(indices) for indices in groups["at_list"].to_pylist())


def latest_rows(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """One row per key (its values in the columns `keys`), the last of duplicates; the order of the rows is kept."""
    doubles = {row for indices in repeated_rows(rows, keys) for row in indices[:-1]}
    return rows if not doubles else rows.take(pa.array([n for n in range(len(rows)) if n not in doubles], pa.int64()))


@dataclass(frozen=True)
class Changes:
    """What is new since the last poll.

    Attributes:
        reset: Whether `rows` holds everything, so that the rows of earlier polls must be dropped.
        rows: A table for each new readable part, oldest first, with the columns asked for.
        broken: All parts that cannot be read, new or not.
    """

    reset: bool
    rows: tuple[pa.Table, ...]
    broken: tuple[BrokenPart, ...]


class Follower:
    """Follows a table and reads each of its parts only once, as parts never change.

    If a part disappears because it was compacted or deleted, the rows read before are outdated: the next changes are
    then marked `reset` and contain everything.
    """

    def __init__(self, storage: Storage, table: str, columns: Sequence[str]) -> None:
        self._parts = PartFolder(storage.subfolder(table), TABLES[table])
        self._columns = [name for name in TABLES[table].names if name in columns]
        self._seen: dict[str, BrokenPart | None] = {}

    def has_changed(self) -> bool:
        """Whether a poll would return anything; needs a listing only."""
        return self._parts.sizes().keys() != self._seen.keys()

    def poll(self) -> Changes:
        """What is new since the last poll. Raises StoreError."""
        names, parts = self._parts.read_each(lambda name: None if name in self._seen else self._read(name))
        if reset := not self._seen.keys() <= names.keys():
            _, parts = self._parts.read_each(lambda name: parts.get(name) or self._read(name))
            self._seen = {}
        new = {name: part for name, part in parts.items() if part is not None}
        self._seen |= {name: part if isinstance(part, BrokenPart) else None for name, part in new.items()}
        rows = tuple(part for part in new.values() if isinstance(part, pa.Table))
        return Changes(reset, rows, tuple(part for part in self._seen.values() if part is not None))

    def _read(self, name: str) -> pa.Table | BrokenPart:
        return self._parts.read_part(name, self._columns)


def encode(table: pa.Table, limit: int | None) -> list[pa.Buffer]:
    """The table as one file, or as several in order that are no larger than `limit` bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue()
    if limit is None or content.size <= limit or len(table) < 2:
        return [content]
    half = len(table) // 2
    return encode(table.slice(0, half), limit) + encode(table.slice(half), limit)


def rewrite(tables: Iterable[pa.Table], limit: int | None) -> list[pa.Buffer]:
    """The rows of all tables as `encode` returns them. Only the compressed file, never all rows, is held in memory."""
    groups = _join(tables)
    first = next(groups, None)
    if first is None:
        return []
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for group in groups:
            writer.write_table(group)
    content = sink.getvalue()
    if limit is None or content.size <= limit:
        return [content]
    return encode(pq.read_table(pa.BufferReader(content)), limit)


def _join(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows in groups of about `GROUP_BYTES`; larger tables are passed on as they are."""
    held, size = list[pa.Table](), 0
    for table in tables:
        if held and size + table.nbytes > GROUP_BYTES:
            yield pa.concat_tables(held)
            held, size = [], 0
        held.append(table)
        size += table.nbytes
    if held:
        yield pa.concat_tables(held)


def decoded_bytes(content: pa.Buffer, columns: Collection[str] | None = None) -> int:
    """An upper bound, in bytes, of the memory for the rows of a Parquet file (or some columns), without decoding them.

    A few kilobytes may encode the same number, or the same megabyte of text, a billion times. Values are counted by the
    file's metadata. Where texts might be too long, each distinct one is read once.

    Raises:
        OSError, pa.ArrowException: it is not a Parquet file.
    """
    metadata = pq.read_metadata(pa.BufferReader(content))
    total: int = _VALUE_BYTES * metadata.num_rows
    for n in range(metadata.num_columns):
        if columns is not None and metadata.schema.column(n).path.partition(".")[0] not in columns:
            continue
        chunks = [metadata.row_group(group).column(n) for group in range(metadata.num_row_groups)]
        column, n_values = metadata.schema.column(n), max(sum(chunk.num_values for chunk in chunks), metadata.num_rows)
        total += _VALUE_BYTES * n_values
        if column.physical_type.endswith("BYTE_ARRAY") and n_values <= _MOST_TEXTS:
            # No text is longer than all distinct texts together, and these are in the file.
            text_bytes = n_values * sum(chunk.total_uncompressed_size for chunk in chunks)
            is_sure = text_bytes < _SURELY_FINE or column.physical_type != "BYTE_ARRAY"
            total += text_bytes if is_sure else _text_bytes(content, column.path)
    return total


_VALUE_BYTES = 16  # memory for a value, not counting its text
_MOST_TEXTS = 125_000_000  # values; more of them exceed `LARGEST_BYTES` at `_VALUE_BYTES` each
_SURELY_FINE = 10**8  # bytes; a larger bound is checked by the distinct texts, which takes a read of the column


def _text_bytes(content: pa.Buffer, column: str) -> int:
    """Total bytes of the texts of a column; it is read as a dictionary, so repeated texts take no memory."""
    file, total = pq.ParquetFile(pa.BufferReader(content), read_dictionary=[column]), 0
    for group in range(file.num_row_groups):
        for chunk in file.read_row_group(group, columns=[column]).column(0).chunks:
            values = _innermost(chunk)
            if pa.types.is_nested(values.type):
                raise pa.ArrowInvalid(f"{column} is a column of no table")
            if pa.types.is_dictionary(values.type):
                lengths = pc.binary_length(values.dictionary).take(values.indices)
            else:
                lengths = pc.binary_length(values)
            total += pc.sum(lengths.cast(pa.int64())).as_py() or 0
    return total


def _innermost(values: pa.Array) -> pa.Array:
    """The values of a nested column from which one leaf was read (a map is then a list of structs with one field)."""
    while pa.types.is_list(values.type) or (pa.types.is_struct(values.type) and values.type.num_fields == 1):
        values = values.flatten() if pa.types.is_list(values.type) else values.field(0)
    return values
