"""Predictions and contributions of a few trials at a time: both are too large to be followed as a whole.

A part is read as a whole, because its digest covers all of it; in memory stay the ids of its trials and the rows of the
trials that were requested, so a part without requested trials is not read again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.store import ResultStore
from orchestrator.store.parts import BrokenPart, PartFolder, latest
from orchestrator.store.schema import KEYS, TABLES

_COLUMNS = {
    "predictions": ("trial_id", "attempt", "split", "sentence", "gold", "predicted"),
    "contributions": TABLES["contributions"].names,
}
_MOST = {"predictions": 40}  # trials in memory


class TrialRows:
    """One table of a store, read for a few trials at a time, from any thread."""

    def __init__(self, store: ResultStore, table: str, *, most: int | None = None) -> None:
        self._parts = PartFolder(store.storage.at(table), TABLES[table])
        self._columns, self._keys = list(_COLUMNS[table]), KEYS[table]
        self._most = _MOST.get(table) if most is None else most
        self._empty = pa.schema([TABLES[table].field(name) for name in self._columns]).empty_table()
        self._lock = threading.Lock()
        self._holds: dict[str, frozenset[str]] = {}
        self._rows: dict[str, pa.Table] = {}
        self._loaded: set[str] = set()

    def of(self, trials: pd.DataFrame) -> pa.Table:
        """Rows of the attempts that count of some trials, `trial_id` and `attempt`, in no order. Raises StoreError."""
        attempts = dict(zip(trials["trial_id"], trials["attempt"].astype(int), strict=True))
        with self._lock:
            if self._most is not None and len(self._loaded) > self._most:
                self._loaded, self._rows = set(), {}
            self._read_parts(set(attempts) - self._loaded)
            return self._found(attempts)

    def _read_parts(self, missing: set[str]) -> None:
        def read(name: str) -> pa.Table | BrokenPart | None:
            is_known = name in self._holds and not self._holds[name] & missing
            return None if is_known else self._parts.read_part(name, self._columns)

        loaded = self._loaded | missing
        names, parts = self._parts.read_each(read)
        for gone in self._holds.keys() - names.keys():
            del self._holds[gone]
            self._rows.pop(gone, None)
        for name, part in parts.items():
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
