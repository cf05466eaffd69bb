"""Rows of a few trials from tables that are too large to mirror: `step_losses` of `epochs`, and `predictions`.

A part is read as a whole, because its digest covers all of it. In memory stay the ids of its trials and the rows of
the trials that were requested, so a part without requested trials is not read again.
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
    """One table of a store, read for a few trials at a time, from any thread."""

    def __init__(self, store: ResultStore, table: str, columns: Sequence[str], keys: Sequence[str]) -> None:
        self._parts = PartFolder(store.storage.at(table), TABLES[table])
        self._columns = [name for name in TABLES[table].names if name in columns]
        self._keys = list(keys)
        self._empty = pa.schema([TABLES[table].field(name) for name in self._columns]).empty_table()
        self._lock = threading.Lock()
        self._holds: dict[str, frozenset[str]] = {}
        self._rows: dict[str, pa.Table] = {}
        self._loaded: set[str] = set()

    def of(self, attempts: Mapping[str, int], prefetch: Collection[str] = ()) -> pa.Table:
        """Rows of some trials, each of the given attempt, in no order. Raises StoreError.

        Args:
            attempts: Trial id to the attempt that counts.
            prefetch: Trials that are likely to be requested next; they cost little, as parts are read as a whole.
        """
        with self._lock:
            self._read_parts(set(attempts), set(prefetch))
            return self._found(attempts)

    def trim(self, at_most: int) -> None:
        """Drop all rows from memory if they belong to more than `at_most` trials."""
        with self._lock:
            if len(self._loaded) > at_most:
                self._loaded, self._rows = set(), {}

    def _read_parts(self, wanted: set[str], prefetch: set[str]) -> None:
        missing = (wanted | prefetch) - self._loaded if wanted - self._loaded else set[str]()
        loaded = self._loaded | missing

        def read(name: str) -> pa.Table | BrokenPart | None:
            is_known = name in self._holds and not self._holds[name] & missing
            return None if is_known else read_part(self._parts, name, self._columns)

        names, found = self._parts.read_each(read)
        for gone in self._holds.keys() - names.keys():
            del self._holds[gone]
            self._rows.pop(gone, None)
        for name, part in found.items():
            if part is not None:
                rows = self._empty if isinstance(part, BrokenPart) else part  # the snapshot reports broken parts
                self._holds[name] = frozenset(rows["trial_id"].unique().to_pylist())
                self._rows[name] = rows.filter(pc.is_in(rows["trial_id"], pa.array(sorted(loaded), pa.string())))
        self._loaded = loaded

    def _found(self, attempts: Mapping[str, int]) -> pa.Table:
        rows = pa.concat_tables([self._empty, *(t.replace_schema_metadata(None) for t in self._rows.values())])
        chosen = rows.filter(pc.is_in(rows["trial_id"], pa.array(sorted(attempts), pa.string())))
        pairs = zip(chosen["trial_id"].to_pylist(), chosen["attempt"].to_pylist(), strict=True)
        right = pa.array([attempts[trial_id] == attempt for trial_id, attempt in pairs], pa.bool_())
        return latest(chosen.filter(right), self._keys)
