"""The only writer of a driver: turns what happens to trials into rows and commits them in batches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from orchestrator.execution.trial_queue import End
from orchestrator.execution.trial_rows import epoch_row, report_rows, trial_row
from orchestrator.store import ResultStore
from orchestrator.store.schema import COMMIT_ORDER, COUNTED
from orchestrator.store.stored_tensors import forget
from trials.record import EpochRecord
from trials.spec import TrialSpec

COMPACT_EVERY = 200  # commits: the number of small parts per table between two compactions
FLUSH_EVERY_S = 1.0  # the most that a killed driver loses of finished trials, and the interval between small parts


class Recorder:
    """Writes rows. Close it, also after an error: the remaining rows are committed then.

    `before_commit` is called before each commit; it raises if others counted this driver as ended, and nothing is
    written. `over` receives the trials that ended, each with its attempt, once their rows are committed. `may_compact`
    says whether this driver is the one that compacts.
    """

    def __init__(
        self,
        store: ResultStore,
        before_commit: Callable[[], None] = lambda: None,
        *,
        over: Callable[[dict[str, int]], None] = lambda attempts: None,
        may_compact: Callable[[], bool] = lambda: True,
    ) -> None:
        self._tell_over, self._may_compact = over, may_compact
        self._store, self._before_commit = store, before_commit
        self._attempts: dict[str, int] = {}
        self._over: dict[str, int] = {}
        self._commits = 0
        self._records: dict[str, list[EpochRecord]] = {}
        self._counts: dict[str, Counter[str]] = {}  # rows of running attempts, by table
        self._buffered: dict[str, list[dict[str, Any]]] = {table: [] for table in COMMIT_ORDER}
        self._flushed = time.monotonic()

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """Start an attempt."""
        self._records[spec.trial_id], self._attempts[spec.trial_id] = [], attempt
        self._counts[spec.trial_id] = Counter()

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Buffer an epoch row."""
        self._records[spec.trial_id].append(record)
        attempt = self._attempts[spec.trial_id]
        rows = {"epochs": [epoch_row(spec, attempt, record)]}
        for report in record.reports:
            for table, new in report_rows(spec, attempt, report).items():
                rows.setdefault(table, []).extend(new)
        for table, new in rows.items():
            self._buffered[table] += new
            self._counts[spec.trial_id][table] += len(new)
        if not record.last:  # the trial's own row follows at once, and is committed with these
            self.tick()

    def retried(self, end: End) -> None:
        """Buffer the attempt's row; the trial's checkpoint is kept."""
        trial_id = end.spec.trial_id
        records, counts = self._records.pop(trial_id, []), self._counts.pop(trial_id, Counter())
        attempt, row_counts = self._attempts[trial_id], [(table, counts[table]) for table in COUNTED]
        row = trial_row(end.spec, attempt, records, end.state, end.error)
        self._buffered["trials"].append(row | {"row_counts": row_counts})
        self._buffered["commits"].append({"trial_id": trial_id, "attempt": attempt})
        self.tick()

    def ended(self, end: End) -> None:
        """Buffer the trial's row."""
        self._over[end.spec.trial_id] = self._attempts[end.spec.trial_id]
        self.retried(end)

    def tick(self) -> None:
        """Commit, if the last commit is long enough ago."""
        if time.monotonic() - self._flushed >= FLUSH_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Commit the buffered rows in `COMMIT_ORDER`: whatever belongs to a trial in the store is there, too."""
        if any(self._buffered.values()):
            self._before_commit()
            self._commits += 1
            for table, rows in self._buffered.items():
                self._store.append(table, rows)
                rows.clear()
        if self._over:  # only after their rows are committed
            forget(self._store.storage, set(self._over))
            ended, self._over = self._over, {}
            self._tell_over(ended)
        if self._commits >= COMPACT_EVERY and self._may_compact():
            self._store.compact()
            pa.default_memory_pool().release_unused()  # it would keep the memory of the largest compaction
            self._commits = 0
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Commit the remaining rows, and compact the store unless another driver is to."""
        self.flush()
        if self._may_compact():
            self._store.compact()
