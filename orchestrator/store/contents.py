"""All rows of a store with the parts that they come from, and the parts that cannot be read.

Parts are read past all caches. Trials are read first and epochs last, the reverse of the order in which they are
committed, so everything that belongs to a trial that was read is read too, even while a sweep is running.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.storage.storage import BrokenError, NewerError, Storage
from orchestrator.store.parts import PartFolder, is_part
from orchestrator.store.schema import (
    ALL_TABLES,
    METRICS,
)

# Everything that belongs to a trial is committed before its own row, and read after it: whoever sees the row sees all.
COMMIT_ORDER = ("epochs", "tags", "predictions", "contributions", "trials", "commits")
READ_ORDER = COMMIT_ORDER[::-1]

# What two runs of one trial must agree in; the other columns are measured, or say where it ran.
COMPUTED = {
    "epochs": ("epoch", "train_loss", "step_losses", "dev_loss", "score", *METRICS, "examples_seen", "lr"),
    "trials": (
        "state", "total_params", "trainable_params", "best_score", "best_epoch", "last_epoch", "test_score",
        "best_metrics", "test_metrics",
    ),
    "tags": ("support", "predicted", "correct"),
    "predictions": ("forms", "gold", "predicted", "probability"),
    "contributions": ("values",),
    "commits": (),
}  # fmt: skip


@dataclass(frozen=True)
class BrokenPart:
    """A part that cannot be read.

    Attributes:
        newer: Whether it is intact, but of a newer version.
    """

    name: str
    wrong: str
    newer: bool


@dataclass(frozen=True)
class TableContents:
    """The rows of a table.

    Attributes:
        names: The readable parts, oldest first.
        starts: The index in `rows` of each part's first row.
        rows: The rows of these parts, in order; columns of `schema`.
        broken: The other parts.
        strange: Files that are not parts.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]
    rows: pa.Table
    broken: tuple[BrokenPart, ...]
    strange: tuple[str, ...]
    n_bytes: int

    def part_of(self, row: int) -> str:
        """The part that contains a row."""
        return self.names[bisect_right(self.starts, row) - 1]


def read_contents(storage: Storage) -> dict[str, TableContents]:
    """Every table. Raises StoreError."""
    return {name: read_table(storage.at(name), name) for name in READ_ORDER}


def read_table(storage: Storage, table: str) -> TableContents:
    """One table. Raises as `read_contents` does."""
    parts = PartFolder(storage, ALL_TABLES[table])
    sizes, read = parts.read_each(lambda name: read_part(parts, name))
    tables = {name: part for name, part in read.items() if isinstance(part, pa.Table)}
    broken = tuple(part for part in read.values() if isinstance(part, BrokenPart))
    starts = tuple(accumulate((len(part) for part in tables.values()), initial=0))[:-1]
    rows = pa.concat_tables([parts.schema.empty_table(), *tables.values()])
    strange = tuple(name for name in parts.storage.files() if not is_part(name))
    return TableContents(tuple(tables), starts, rows, broken, strange, sum(sizes.values()))


def read_part(parts: PartFolder, name: str, columns: Sequence[str] | None = None) -> pa.Table | BrokenPart:
    """The rows of a part, with all columns or some; a `BrokenPart` if it cannot be read.

    Raises:
        FileNotFoundError: it no longer exists.
    """
    try:
        content = pa.py_buffer(parts.storage.read(name))
    except FileNotFoundError:
        raise
    except OSError as error:
        return BrokenPart(name, f"cannot be read ({error.strerror or error})", newer=False)
    try:
        return parts.decoded(name, content, columns=columns)
    except BrokenError as error:
        return BrokenPart(name, error.wrong, newer=isinstance(error, NewerError))


def repeated(rows: pa.Table, keys: Sequence[str]) -> list[list[int]]:
    """For each key that occurs more than once, the indices of its rows, ascending."""
    names = list(keys)
    numbered = rows.select(names).append_column("at", pa.array(range(len(rows)), pa.int64()))
    counts = numbered.group_by(names).aggregate([("at", "count")])
    many = counts.filter(pc.greater(counts["at_count"], 1)).select(names)
    if not len(many):  # the usual case; lists of all rows take memory
        return []
    groups = numbered.join(many, names, join_type="inner").group_by(names).aggregate([("at", "list")])
    return sorted(sorted(at) for at in groups["at_list"].to_pylist())


def latest(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """One row per key, the later of duplicates, in the order of the rows."""
    doubles = {row for at in repeated(rows, keys) for row in at[:-1]}
    return rows if not doubles else rows.take(pa.array([n for n in range(len(rows)) if n not in doubles], pa.int64()))
