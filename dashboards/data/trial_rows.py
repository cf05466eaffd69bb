"""Rows of a few trials from tables that are too large to mirror: `step_losses` of `epochs`, and `predictions`.

A part is read as a whole, because its digest covers all of it. In memory stay the ids of its trials and the rows of
the trials that were requested, so a part without requested trials is not read again.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dashboards.data.frames import Snapshot
from dashboards.data.selection import Selection
from orchestrator.analysis.trial_frame import with_sentences
from orchestrator.store import ResultStore
from orchestrator.store.contents import BrokenPart, latest, read_part
from orchestrator.store.evidence import sentence_columns
from orchestrator.store.parts import PartFolder
from orchestrator.store.schema import CONTRIBUTIONS, KEYS, TABLES


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


# What each sentence contributes to the scores of a selection, read on demand.

_readers: WeakKeyDictionary[ResultStore, TrialRows] = WeakKeyDictionary()
_lock = threading.Lock()


def trials_with_sentences(selection: Selection) -> pd.DataFrame:
    """The trials of a selection with the columns of `trial_frame.with_sentences`, all None for other metrics.

    Raises StoreError.

    Parts of the store that were read for an earlier call are not read again.
    """
    trials = selection.trials
    if not selection.scored:
        return with_sentences(trials, {})
    with _lock:
        reader = _readers.get(selection.snapshot.store)
        if reader is None:
            reader = TrialRows(selection.snapshot.store, "contributions", CONTRIBUTIONS.names, KEYS["contributions"])
            _readers[selection.snapshot.store] = reader
    done = selection.completed
    attempts = dict(zip(done["trial_id"], done["attempt"].astype(int), strict=True))
    rows = reader.of(attempts)
    return with_sentences(trials, sentence_columns(rows, selection.scored), selection.scored)


# The training loss of every step of a few trials, read on demand.

SEEDS = 3  # the lowest of each cell, which figures show and memory holds
_COLUMNS = ["trial_id", "attempt", "step", "step_losses"]
_loss_readers: WeakKeyDictionary[ResultStore, _Reader] = WeakKeyDictionary()


def step_losses(snapshot: Snapshot, trials: pd.DataFrame) -> pd.DataFrame:
    """The losses of some trials, one row per step, by trial and step: `trial_id`, `step`, `loss`. Raises StoreError.

    The first call for a store reads all its evaluations and keeps those of the `SEEDS` lowest seeds of every cell;
    later calls read new parts only. The same call for the same snapshot returns the same frame.
    """
    with _lock:
        reader = _loss_readers.setdefault(snapshot.store, _Reader(snapshot.store))
    return reader.of(snapshot, trials)


def lowest_seeds(trials: pd.DataFrame) -> pd.DataFrame:
    """The rows of each cell's `SEEDS` lowest seeds."""
    order = trials.sort_values("seed", kind="stable")
    return order[order.groupby("cell").cumcount() < SEEDS].sort_index()


class _Reader:
    """The losses of one store, and the results for its newest snapshot."""

    def __init__(self, store: ResultStore) -> None:
        self._rows = TrialRows(store, "epochs", _COLUMNS, KEYS["epochs"])
        self._version = 0
        self._answers: dict[frozenset[str], pd.DataFrame] = {}

    def of(self, snapshot: Snapshot, trials: pd.DataFrame) -> pd.DataFrame:
        ids = frozenset(trials["trial_id"])
        with _lock:
            if snapshot.version != self._version:
                self._version, self._answers = snapshot.version, {}
            if ids in self._answers:
                return self._answers[ids]
        attempts = dict(zip(trials["trial_id"], trials["attempt"].astype(int), strict=True))
        answer = _by_step(self._rows.of(attempts, _likely(snapshot)))
        with _lock:
            self._answers[ids] = answer
        return answer


def _likely(snapshot: Snapshot) -> set[str]:
    frames = [sweep.trials[["trial_id", "cell", "seed"]] for sweep in snapshot.sweeps.values()]
    known = pd.concat(frames, ignore_index=True).drop_duplicates("trial_id")
    return set(lowest_seeds(known)["trial_id"])


def _by_step(rows: pa.Table) -> pd.DataFrame:
    """One row per step. A row of `epochs` holds the losses of the steps up to and including `step`."""
    rows = rows.filter(pc.is_valid(rows["step_losses"])).sort_by([("trial_id", "ascending"), ("step", "ascending")])
    lengths = pc.list_value_length(rows["step_losses"]).to_numpy().astype(np.int64)
    last = rows["step"].to_numpy().astype(np.int64)
    ends = np.cumsum(lengths)
    within = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
    return pd.DataFrame(
        {
            "trial_id": np.repeat(rows["trial_id"].to_numpy(zero_copy_only=False), lengths),
            "step": np.repeat(last - lengths + 1, lengths) + within,
            "loss": pc.list_flatten(rows["step_losses"]).to_numpy().astype(np.float64),
        }
    )
