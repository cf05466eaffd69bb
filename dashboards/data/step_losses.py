"""The training loss of every step of a few trials, read on demand."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dashboards.data.frames import Snapshot
from dashboards.data.trial_rows import TrialRows
from orchestrator.store import ResultStore
from orchestrator.store.schema import KEYS

SEEDS = 3  # the lowest of each cell, which figures show and memory holds
_COLUMNS = ["trial_id", "attempt", "step", "step_losses"]
_readers: WeakKeyDictionary[ResultStore, _Reader] = WeakKeyDictionary()
_lock = threading.Lock()


def step_losses(snapshot: Snapshot, trials: pd.DataFrame) -> pd.DataFrame:
    """The losses of some trials, one row per step, by trial and step: `trial_id`, `step`, `loss`. Raises StoreError.

    The first call for a store reads all its evaluations and keeps those of the `SEEDS` lowest seeds of every cell;
    later calls read new parts only. The same call for the same snapshot returns the same frame.
    """
    with _lock:
        reader = _readers.setdefault(snapshot.store, _Reader(snapshot.store))
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
