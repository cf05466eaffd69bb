"""Rows as the bytes of Parquet files, no larger than the storage allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

GROUP_BYTES = 4 * 2**20  # in memory: the rows that are rewritten at a time and form a row group


def encoded(table: pa.Table, limit: int | None) -> list[pa.Buffer]:
    """The table as one file, or as several in order that are no larger than `limit` bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue()
    if limit is None or content.size <= limit or len(table) < 2:
        return [content]
    half = len(table) // 2
    return encoded(table.slice(0, half), limit) + encoded(table.slice(half), limit)


def rewritten(tables: Iterable[pa.Table], limit: int | None) -> list[pa.Buffer]:
    """The rows of all tables, as `encoded`, without all of them in memory: in a file they are much smaller."""
    groups = _joined(tables)
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
    return encoded(pq.read_table(pa.BufferReader(content)), limit)


def _joined(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
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
