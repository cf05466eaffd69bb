"""What the row of an ended trial records about its rows in the other tables: how many there are, and a digest.

A digest depends on the content of the rows only: not on their order, nor on the parts that they are in, nor on the
attempt's number, which a merge changes. Columns without a value are left out, so that a column that is added later
changes no digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.store.schema import (
    KEYS,
)

RECORDED = ("epochs", "tags", "predictions", "contributions")
_FREE = {"trial_id", "attempt"}  # the row that records the digest has them


class Recorded(NamedTuple):
    """What is recorded of a trial's rows in one table.

    Attributes:
        digest: `<16 hex digits>/<columns with a value>`; empty without rows.
    """

    rows: int
    digest: str


NOTHING = Recorded(0, "")


def recorded(table: str, rows: pa.Table) -> Recorded:
    """Of the rows of one attempt in a table, each of which occurs once."""
    if not len(rows):
        return NOTHING
    keys = [key for key in KEYS[table] if key not in _FREE]
    ordered = rows.sort_by([(key, "ascending") for key in keys])
    content, n_columns = hashlib.sha256(), 0
    for name in sorted(ordered.column_names):
        column = ordered[name].combine_chunks()
        if name not in _FREE and column.null_count < len(column):
            n_columns += 1
            content.update(name.encode())
            for part in _content(column):
                content.update(part)
    return Recorded(len(rows), f"{content.hexdigest()[:16]}/{n_columns}")


def as_columns(by_table: Mapping[str, Recorded]) -> dict[str, list[tuple[str, int]] | list[tuple[str, str]]]:
    """The columns of `schema.TRIALS` that hold what is recorded by table."""
    counts = [(table, record.rows) for table, record in by_table.items()]
    return {"row_counts": counts, "row_digests": [(table, record.digest) for table, record in by_table.items()]}


def of_columns(row: Mapping[str, object]) -> dict[str, Recorded]:
    """By table, from a row of `schema.TRIALS`; empty for rows of older versions."""
    counts, digests = dict(row["row_counts"] or ()), dict(row["row_digests"] or ())  # type: ignore[call-overload]
    return {table: Recorded(n, digests.get(table) or "") for table, n in counts.items()}


def _content(values: pa.Array) -> Iterator[bytes]:
    """The values as bytes: which are null, how long each text or list is, and the rest one after the other."""
    yield np.packbits(values.is_valid().to_numpy(zero_copy_only=False)).tobytes()
    values = values.drop_null()
    kind = values.type
    if pa.types.is_list(kind):
        yield values.value_lengths().to_numpy(zero_copy_only=False).tobytes()
        yield from _content(values.flatten())
    elif pa.types.is_string(kind):
        yield pc.binary_length(values).to_numpy(zero_copy_only=False).tobytes()
        _, offsets, text = values.buffers()
        if len(values) and text is not None:
            ends = np.frombuffer(offsets, np.int32, len(values) + 1, 4 * values.offset)
            yield text[int(ends[0]) : int(ends[-1])].to_pybytes()
    else:
        integer = values.cast(pa.int64()) if pa.types.is_timestamp(kind) or pa.types.is_boolean(kind) else values
        yield integer.to_numpy(zero_copy_only=False).tobytes()
