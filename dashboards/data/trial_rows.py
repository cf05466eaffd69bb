"""Rows of a few trials from the tables that are too large to mirror: `step_losses` of `epochs`, and `predictions`.

A part is read as a whole, as its digest covers all of it; what is remembered of it is which trials it holds and the
rows of those that were asked for. So a part that holds none of the wanted trials is not read again, and a question
that was answered once costs no reading.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.store import ResultStore
from orchestrator.store.contents import BrokenPart, latest, read_part
from orchestrator.store.parts import PartFolder
from orchestrator.store.schema import TABLES


class TrialRows:
    """One table of a store, read for chosen trials. May be asked from any thread."""

    def __init__(self, store: ResultStore, table: str, columns: Sequence[str], keys: Sequence[str]) -> None:
        self._parts = PartFolder(store.storage.at(table), TABLES[table])
        self._columns = [name for name in TABLES[table].names if name in columns]
        self._keys = list(keys)
        self._empty = pa.schema([TABLES[table].field(name) for name in self._columns]).empty_table()
        self._lock = threading.Lock()
        self._holds: dict[str, frozenset[str]] = {}
        self._rows: dict[str, pa.Table] = {}
        self._kept: set[str] = set()

    def of(self, attempts: Mapping[str, int], beside: Collection[str] = ()) -> pa.Table:
        """Rows of some trials, each of the given attempt, in no order.

        Args:
            attempts: Trial id to the attempt that counts.
            beside: Trials that are likely to be asked for next: taken along, as a part is read as a whole anyway.

        Raises:
            StoreError: the storage does not answer, or parts vanish again and again.
        """
        with self._lock:
            self._take_in(set(attempts), set(beside))
            return self._found(attempts)

    def forget(self, most: int) -> None:
        """Drop the kept rows where they are of more than `most` trials."""
        with self._lock:
            if len(self._kept) > most:
                self._kept, self._rows = set(), {}

    def _take_in(self, wanted: set[str], beside: set[str]) -> None:
        missing = (wanted | beside) - self._kept if wanted - self._kept else set[str]()
        kept = self._kept | missing

        def read(name: str) -> pa.Table | BrokenPart | None:
            is_known = name in self._holds and not self._holds[name] & missing
            return None if is_known else read_part(self._parts, name, self._columns)

        names, found = self._parts.read_each(read)
        for gone in self._holds.keys() - names.keys():
            del self._holds[gone]
            self._rows.pop(gone, None)
        for name, part in found.items():
            if part is not None:
                rows = self._empty if isinstance(part, BrokenPart) else part  # the snapshot tells of broken parts
                self._holds[name] = frozenset(rows["trial_id"].unique().to_pylist())
                self._rows[name] = rows.filter(pc.is_in(rows["trial_id"], pa.array(sorted(kept), pa.string())))
        self._kept = kept

    def _found(self, attempts: Mapping[str, int]) -> pa.Table:
        rows = pa.concat_tables([self._empty, *(t.replace_schema_metadata(None) for t in self._rows.values())])
        chosen = rows.filter(pc.is_in(rows["trial_id"], pa.array(sorted(attempts), pa.string())))
        pairs = zip(chosen["trial_id"].to_pylist(), chosen["attempt"].to_pylist(), strict=True)
        right = pa.array([attempts[trial_id] == attempt for trial_id, attempt in pairs], pa.bool_())
        return latest(chosen.filter(right), self._keys)
