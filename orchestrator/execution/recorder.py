"""The only writer of a driver: turns a driver's events into rows and commits them in batches."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import trials
from orchestrator.execution.events import Listener
from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import Storage
from orchestrator.store import ResultStore
from orchestrator.store.contents import COMMIT_ORDER
from orchestrator.store.row_digests import NOTHING, RECORDED, as_columns, of_columns, recorded
from orchestrator.store.schema import CHECKPOINTS, EPOCHS, TABLES, digest, is_intact, proven_reads
from orchestrator.store.spec_columns import spec_columns
from orchestrator.store.stored_weights import WEIGHTS, recorded_weights
from trials.datasets.corpus import Item, labels_of
from trials.errors import StoreError
from trials.plugins.loading import source_digests
from trials.record import EpochRecord, SplitReport, loss_fall, trial_totals
from trials.spec import TrialSpec
from trials.state import State
from trials.tasks.task import read_corpus, words_of

ROOM_BYTES = 16_000_000


class StoredCheckpoints:
    """The checkpoints of one trial, next to the rows: a `trials.training.checkpoint.CheckpointStorage`.

    One is the object `checkpoints/<trial_id>-<attempt>-<step>-<digest>.safetensors`. Attempt and step are padded with
    zeros, so the newest sorts last, and a late worker of an older attempt can only add older names. A checkpoint whose
    bytes do not match its digest counts as absent: resuming from it would give other numbers.
    """

    def __init__(self, store: str, trial_id: str, attempt: int) -> None:
        self._storage, self._trial_id, self._attempt = open_storage(store).at(CHECKPOINTS), trial_id, attempt

    def load(self) -> bytes | None:
        """The newest checkpoint of this attempt and earlier ones."""
        for name in reversed(self._names()):
            try:
                content = proven_reads(self._storage).read(name)
            except FileNotFoundError:  # another process has replaced it by a newer one
                continue
            if is_intact(name, content):
                return content
        return None

    def save(self, step: int, content: bytes) -> None:
        """Save a new checkpoint, then delete earlier ones.

        Raises:
            StoreError: it cannot be written, or would leave no room for rows, which trials need more.
        """
        free = self._storage.free_bytes()
        if free is not None and free < len(content) + ROOM_BYTES:
            raise StoreError(
                f"{self._storage}: no room for a checkpoint of {len(content) / 1e6:.1f} MB ({free / 1e6:.1f} MB are "
                f"free, and {ROOM_BYTES / 1e6:.0f} MB are left for rows)."
            )
        old = self._names()
        name = f"{self._trial_id}-{self._attempt:06}-{step:012}-{digest(content)}.safetensors"
        self._storage.write(name, content)
        for old_name in old:
            if old_name != name:
                self._storage.delete(old_name)

    def _names(self) -> list[str]:
        """Those of this attempt and earlier ones, oldest first."""
        return list(self._storage.files(f"{self._trial_id}-", f"{self._trial_id}-{self._attempt + 1:06}"))


def forget(store: Storage, trial_ids: set[str]) -> None:
    """Delete the checkpoints of trials that have ended."""
    storage = store.at(CHECKPOINTS)
    for name in storage.files():
        if name.partition("-")[0] in trial_ids:
            storage.delete(name)


COMPACT_EVERY = 200  # commits: the number of small parts per table between two compactions
FLUSH_EVERY_S = 1.0  # the most that a killed driver loses of finished trials, and the interval between small parts


class Recorder(Listener):
    """A `Listener` that writes rows. Close it, also after an error: the remaining rows are committed then.

    `before_commit` is called before each commit; it raises if others counted this driver as ended, and nothing is
    written. `committed` receives the seconds that each commit took, including compaction, and `over` the trials that
    ended or paused, each with its attempt, once their rows are committed. `may_compact` says whether this driver is the
    one that compacts. With `keeps_weights` the rows of completed trials record their stored weights, too.
    """

    def __init__(
        self,
        store: ResultStore,
        before_commit: Callable[[], None] = lambda: None,
        committed: Callable[[float], None] = lambda seconds: None,
        *,
        over: Callable[[dict[str, int]], None] = lambda attempts: None,
        may_compact: Callable[[], bool] = lambda: True,
        keeps_weights: bool = False,
    ) -> None:
        self._tell_over, self._may_compact = over, may_compact
        self._keeps_weights = keeps_weights
        self._store, self._before_commit, self._committed = store, before_commit, committed
        self._attempts: dict[str, int] = {}
        self._over: dict[str, int] = {}
        self._paused: dict[str, int] = {}
        self._commits = 0
        self._records: dict[str, list[EpochRecord]] = {}
        self._rows: dict[str, dict[str, list[dict[str, Any]]]] = {}  # of running attempts, by table
        self._buffered: dict[str, list[dict[str, Any]]] = {table: [] for table in COMMIT_ORDER}
        self._flushed = time.monotonic()

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """Start an attempt."""
        self._records[spec.trial_id], self._attempts[spec.trial_id] = [], attempt
        self._rows[spec.trial_id] = {table: [] for table in RECORDED}

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
            self._rows[spec.trial_id][table] += new
        if not record.last:  # the trial's own row follows at once, and is committed with these
            self.tick()

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Buffer the attempt's row; the trial's checkpoint is kept."""
        if state is State.PRUNED:
            self._paused[spec.trial_id] = self._attempts[spec.trial_id]
        self._buffer(spec, state, error)

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Buffer the trial's row."""
        self._over[spec.trial_id] = self._attempts[spec.trial_id]
        self._buffer(spec, state, error)

    def _buffer(self, spec: TrialSpec, state: State, error: str | None) -> None:
        records, rows = self._records.pop(spec.trial_id, []), self._rows.pop(spec.trial_id, {})
        attempt = self._attempts[spec.trial_id]
        counts = dict.fromkeys(RECORDED, NOTHING) | {
            name: recorded(name, pa.Table.from_pylist(some, TABLES[name])) for name, some in rows.items() if some
        }
        self._buffered["trials"].append(trial_row(spec, attempt, records, state, error) | as_columns(counts))
        self._buffered["commits"].append({"trial_id": spec.trial_id, "attempt": attempt})
        self.tick()

    def tick(self) -> None:
        """Commit, if the last commit is long enough ago."""
        if time.monotonic() - self._flushed >= FLUSH_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Commit the buffered rows in `COMMIT_ORDER`: whatever belongs to a trial in the store is there, too."""
        began, is_commit = time.monotonic(), any(self._buffered.values())
        if is_commit:
            self._before_commit()
            self._commits += 1
        if self._keeps_weights:
            self._record_weights()
        for table, rows in self._buffered.items():
            self._store.append(table, rows)
            rows.clear()
        if self._over or self._paused:  # only after their rows are committed
            if self._over:
                forget(self._store.storage, set(self._over))
            self._tell_over(self._paused | self._over)
            self._over, self._paused = {}, {}
        if self._commits >= COMPACT_EVERY and self._may_compact():
            self._store.compact()
            pa.default_memory_pool().release_unused()  # it would keep the memory of the largest compaction
            self._commits = 0
        self._flushed = time.monotonic()
        if is_commit:
            self._committed(self._flushed - began)

    def _record_weights(self) -> None:
        rows = {row["trial_id"]: row for row in self._buffered["trials"] if row["state"] == State.COMPLETED}
        for trial_id, weights in recorded_weights(self._store.storage, rows.keys()).items():
            rows[trial_id] |= as_columns(of_columns(rows[trial_id]) | {WEIGHTS: weights})

    def close(self) -> None:
        """Commit the remaining rows, and compact the store unless another driver is to."""
        self.flush()
        if self._may_compact():
            self._store.compact()


def epoch_row(spec: TrialSpec, attempt: int, record: EpochRecord) -> dict[str, Any]:
    """A row of `schema.EPOCHS`: the fields of the record that have a column there."""
    columns = {name: getattr(record, name) for name in EPOCHS.names if hasattr(record, name)}
    key = {"trial_id": spec.trial_id, "attempt": attempt}
    return {**columns, **record.metrics, **key, "time": _utc(record.time)}


def trial_row(
    spec: TrialSpec, attempt: int, records: list[EpochRecord], state: State, error: str | None
) -> dict[str, Any]:
    """A row of `schema.TRIALS`; without records its results are null."""
    row: dict[str, Any] = {
        **spec_columns(spec),
        "attempt": attempt,
        "state": state.value,
        "git_commit": git_commit(),
        "versions": list(versions().items()),
        "error": error,
        "time": _utc(time.time()),
    }
    return row | (_results(records) if records else {})


def _results(records: list[EpochRecord]) -> dict[str, Any]:
    best, last = max(records, key=lambda record: record.score), records[-1]  # max takes the earliest of equals
    return {
        "total_params": last.total_params,
        "trainable_params": last.trainable_params,
        "best_score": best.score,
        "best_epoch": best.epoch,
        "last_epoch": last.epoch,
        "test_score": last.test_score,
        "best_metrics": list(best.metrics.items()),
        "test_metrics": list(last.test_metrics.items()) if last.test_metrics else None,
        "constant_score": next((report.constant_score for report in last.reports if report.split == "dev"), None),
        "loss_fall": loss_fall([loss for record in records for loss in record.step_losses]),
        **trial_totals(records),
    }


def report_rows(spec: TrialSpec, attempt: int, report: SplitReport) -> dict[str, list[dict[str, Any]]]:
    """Rows of `schema.TAGS`, `CONTRIBUTIONS` and `PREDICTIONS`, as far as the trial has them.

    The words of predictions come from the corpus.
    """
    key = {"trial_id": spec.trial_id, "attempt": attempt, "split": report.split}
    rows = {"tags": [{**key, **asdict(tag)} for tag in report.tags]}
    if report.contributions:
        lists = {"documents": list(report.documents) or None, "words": list(report.words) or None}
        rows["contributions"] = [{**key, "values": list(report.contributions), **lists}]
    items: list[Item] = getattr(read_corpus(spec.task, spec.data), report.split) if report.gold else []
    rows["predictions"], start = [], 0
    for number, item in enumerate(items):
        end = start + len(labels_of(item))
        labels = {
            "forms": list(words_of(item)),
            "gold": _written(report, report.gold[start:end]),
            "predicted": _written(report, report.predicted[start:end]),
            "probability": list(report.probability[start:end]),
        }
        rows["predictions"].append({**key, "sentence": number, **labels})
        start = end
    return rows


def _written(report: SplitReport, labels: Sequence[float]) -> list[str | None]:
    """Labels by name, null where there is none; numbers as text."""
    if not report.names:
        return [str(number) for number in labels]
    return [report.names[int(label)] if label >= 0 else None for label in labels]


def _utc(unix_s: float) -> datetime:
    return datetime.fromtimestamp(unix_s, UTC)


@cache
def git_commit() -> str | None:
    """The commit of this code, with `+` if it has uncommitted changes; None outside a checkout."""
    here = Path(__file__).parent
    try:
        processes = [
            subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True, timeout=10)
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return processes[0].stdout.strip() + ("+" if processes[1].stdout.strip() else "")


@cache
def versions() -> dict[str, str]:
    """The versions that a result depends on; of plug-ins, the beginnings of their sources' digests."""
    packages = ("torch", "transformers", "tokenizers", "ray", "numpy")
    return (
        {"python": platform.python_version(), "permafrost-sweeps": trials.__version__}
        | {name: version for name in packages if (version := _version(name)) is not None}
        | {f"plug-in {module}": digest[:16] for module, digest in source_digests().items()}
    )


def _version(package: str) -> str | None:
    """None if it is not installed, as Ray for `--cluster inline` need not be."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
