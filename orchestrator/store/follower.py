"""Incremental reads of a store's table, for readers that follow a running sweep.

    follower = Follower(store.storage, "epochs", ["trial_id", "step", "score"])
    changes = follower.poll()      # first all parts, then only new ones

Parts never change, so each is read once. If one disappears, because it was compacted or repaired, the rows that were
read before are outdated: the changes are then marked `reset` and contain everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from orchestrator.storage.storage import Storage
from orchestrator.store.contents import BrokenPart, read_part
from orchestrator.store.parts import PartFolder
from orchestrator.store.schema import (
    TABLES,
)


@dataclass(frozen=True)
class Changes:
    """What is new since the last poll.

    Attributes:
        reset: Whether these are all rows, and those of earlier polls must be dropped.
        rows: A table for each new readable part, oldest first, with the columns asked for.
        broken: All parts that cannot be read, new or not.
    """

    reset: bool
    rows: tuple[pa.Table, ...]
    broken: tuple[BrokenPart, ...]


class Follower:
    """Reads each part of a table once."""

    def __init__(self, storage: Storage, table: str, columns: Sequence[str]) -> None:
        self._parts = PartFolder(storage.at(table), TABLES[table])
        self._columns = [name for name in TABLES[table].names if name in columns]
        self._seen: dict[str, BrokenPart | None] = {}

    def changed(self) -> bool:
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
        return read_part(self._parts, name, self._columns)
