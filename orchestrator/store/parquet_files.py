"""Rows as the bytes of Parquet files, no larger than the storage allows, and no larger in memory than they may be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
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


def decoded_bytes(content: pa.Buffer, columns: Collection[str] | None = None) -> int:
    """At least as many bytes as the rows of a Parquet file, or these columns of it, take in memory; not decoded.

    A few kilobytes may say "a billion times the same number" or "the same megabyte of text". Values are counted in the
    file's metadata. Of texts, where they could be too long, each distinct one is read once.

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
            # No text is longer than all distinct ones, which are in the file.
            text_bytes = n_values * sum(chunk.total_uncompressed_size for chunk in chunks)
            is_sure = text_bytes < _SURELY_FINE or column.physical_type != "BYTE_ARRAY"
            total += text_bytes if is_sure else _text_bytes(content, column.path)
    return total


_VALUE_BYTES = 16
_MOST_TEXTS = 125_000_000  # more values are too many anyway
_SURELY_FINE = 10**8


def _text_bytes(content: pa.Buffer, column: str) -> int:
    """Bytes of all texts of a column, which is read without their repetitions."""
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
    """The values of a nested column of which one leaf was read; a map is then a list of structs with one field."""
    while pa.types.is_list(values.type) or (pa.types.is_struct(values.type) and values.type.num_fields == 1):
        values = values.flatten() if pa.types.is_list(values.type) else values.field(0)
    return values
