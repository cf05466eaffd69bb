"""What is new in a store since the last look: for those who watch a running sweep.

    follower = Follower(store.storage, "epochs", ["trial_id", "step", "score"])
    news = follower.look()      # at first all parts, then only those that came since

Parts are never changed, so a part that was read once is not read again. Where one is gone, compacted or taken out, the
rows that were read no longer tell what the store holds: the news then says `anew` and brings everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from orchestrator.storage.storage import Storage
from orchestrator.store.contents import BrokenPart, read_part
from orchestrator.store.parts import PartFolder
from orchestrator.store.schema import TABLES


@dataclass(frozen=True)
class News:
    """What a look brought.

    Attributes:
        anew: Whether this is all there is, and what came before is to be forgotten.
        rows: A table a part that could be read, oldest first, with the columns asked for.
        broken: All parts that cannot be read, seen before or not.
    """

    anew: bool
    rows: tuple[pa.Table, ...]
    broken: tuple[BrokenPart, ...]

    @property
    def is_none(self) -> bool:
        """Whether nothing changed."""
        return not self.anew and not self.rows


class Follower:
    """Reads each part of a table once."""

    def __init__(self, storage: Storage, table: str, columns: Sequence[str]) -> None:
        self._parts = PartFolder(storage.at(table), TABLES[table])
        self._columns = [name for name in TABLES[table].names if name in columns]
        self._seen: dict[str, BrokenPart | None] = {}

    def changed(self) -> bool:
        """Whether a look would bring something, told from a listing."""
        return self._parts.sizes().keys() != self._seen.keys()

    def look(self) -> News:
        """What came since the last look.

        Raises:
            StoreError: the storage does not answer, or parts vanish again and again.
        """
        names, found = self._parts.read_each(lambda name: None if name in self._seen else self._read(name))
        if anew := not self._seen.keys() <= names.keys():
            _, found = self._parts.read_each(lambda name: found.get(name) or self._read(name))
            self._seen = {}
        new = {name: part for name, part in found.items() if part is not None}
        self._seen |= {name: part if isinstance(part, BrokenPart) else None for name, part in new.items()}
        rows = tuple(part for part in new.values() if isinstance(part, pa.Table))
        return News(anew, rows, tuple(part for part in self._seen.values() if part is not None))

    def _read(self, name: str) -> pa.Table | BrokenPart:
        return read_part(self._parts, name, self._columns)
