"""All rows of a store as they lie in its parts, with the part that each comes from; what cannot be read is told.

Nothing is taken from memory: each part is read anew. Trials are read first, epochs last, against the order in which
they are committed, so of a trial or a tag that was seen all that belongs to it is there, though a sweep is running.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from orchestrator.storage.errors import BrokenError, NewerError
from orchestrator.storage.storage import Storage
from orchestrator.store.parts import PartFolder, is_part
from orchestrator.store.schema import METRICS, TABLES

# A trial's own row is committed last, and read first: whoever sees it sees everything that belongs to the trial.
COMMIT_ORDER = ("epochs", "tags", "predictions", "trials")
READ_ORDER = tuple(reversed(COMMIT_ORDER))

# What no two rows share, but for those that a killed compaction left in two parts. Readers take the later of them.
KEYS = {
    "epochs": ("trial_id", "attempt", "step"),
    "trials": ("trial_id", "attempt"),
    "tags": ("trial_id", "attempt", "split", "level", "tag"),
    "predictions": ("trial_id", "attempt", "split", "sentence"),
}

# What two runs of one trial must agree in; the other columns are measured, or say where it ran.
COMPUTED = {
    "epochs": ("epoch", "train_loss", "step_losses", "dev_loss", "score", *METRICS, "examples_seen", "lr"),
    "trials": (
        "state", "total_params", "trainable_params", "best_score", "best_epoch", "last_epoch", "test_score",
        "best_metrics", "test_metrics",
    ),
    "tags": ("support", "predicted", "correct"),
    "predictions": ("forms", "gold", "predicted", "probability"),
}  # fmt: skip


@dataclass(frozen=True)
class BrokenPart:
    """A part that cannot be read.

    Attributes:
        wrong: What is wrong with it.
        newer: Whether that is only its version.
        rows: How many rows of each trial it seems to have, where its ids can be read; they may be wrong too.
    """

    name: str
    wrong: str
    newer: bool
    rows: dict[str, int] | None


@dataclass(frozen=True)
class TableContents:
    """The rows of a table.

    Attributes:
        names: Its parts that can be read, oldest first.
        starts: The number of each one's first row in `rows`.
        rows: Of all of them, in order; columns of `schema`.
        broken: The others.
        strange: Files that are no parts.
        n_bytes: Of all parts.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]
    rows: pa.Table
    broken: tuple[BrokenPart, ...]
    strange: tuple[str, ...]
    n_bytes: int

    def part_of(self, row: int) -> str:
        """The part that a row stands in."""
        return self.names[bisect_right(self.starts, row) - 1]


def read_contents(storage: Storage) -> dict[str, TableContents]:
    """Every table.

    Raises:
        StoreError: the storage does not answer, or parts vanish all the time.
    """
    return {name: read_table(storage.at(name), name) for name in READ_ORDER}


def read_table(storage: Storage, table: str) -> TableContents:
    """One table. Raises as `read_contents` does."""
    parts = PartFolder(storage, TABLES[table])
    sizes, read = parts.read_each(lambda name: read_part(parts, name))
    tables = {name: found for name, found in read.items() if isinstance(found, pa.Table)}
    broken = tuple(found for found in read.values() if isinstance(found, BrokenPart))
    starts = tuple(accumulate((len(found) for found in tables.values()), initial=0))[:-1]
    rows = pa.concat_tables([parts.schema.empty_table(), *tables.values()])
    strange = tuple(name for name in parts.storage.files() if not is_part(name))
    return TableContents(tuple(tables), starts, rows, broken, strange, sum(sizes.values()))


def read_part(parts: PartFolder, name: str, columns: Sequence[str] | None = None) -> pa.Table | BrokenPart:
    """The rows of a part, of all columns or of some; what is wrong with it where it cannot be read.

    Raises:
        FileNotFoundError: it is gone.
    """
    try:
        content = pa.py_buffer(parts.storage.read(name))
    except FileNotFoundError:
        raise
    except OSError as error:
        return BrokenPart(name, f"cannot be read ({error.strerror or error})", newer=False, rows=None)
    try:
        return parts.decoded(name, content, columns=columns)
    except BrokenError as error:
        newer = isinstance(error, NewerError)
        return BrokenPart(name, error.wrong, newer, None if newer else _readable_ids(content))


def _readable_ids(content: pa.Buffer) -> dict[str, int] | None:
    try:
        ids = pq.read_table(pa.BufferReader(content), columns=["trial_id"], partitioning=None)["trial_id"]
        return {found["values"]: found["counts"] for found in ids.value_counts().to_pylist()}
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None


def repeated(rows: pa.Table, keys: Sequence[str]) -> list[list[int]]:
    """The numbers of the rows of each key that stands there more than once, ascending."""
    names = list(keys)
    numbered = rows.select(names).append_column("at", pa.array(range(len(rows)), pa.int64()))
    counts = numbered.group_by(names).aggregate([("at", "count")])
    many = counts.filter(pc.greater(counts["at_count"], 1)).select(names)
    if not len(many):  # nearly always, and lists of all rows take memory
        return []
    found = numbered.join(many, names, join_type="inner").group_by(names).aggregate([("at", "list")])
    return sorted(sorted(at) for at in found["at_list"].to_pylist())


def latest(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """One row a key, the later of two, in the order of the rows."""
    doubles = {row for at in repeated(rows, keys) for row in at[:-1]}
    return rows if not doubles else rows.take(pa.array([n for n in range(len(rows)) if n not in doubles], pa.int64()))
