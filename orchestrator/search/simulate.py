"""A sweep replayed from a store without training: what a search would have found there, and what it would have spent.

Trials take as long as they took; some run at the same time. A trial that pauses or stops has spent its epochs until
then, and one that goes on spends only those that follow, as it would from its checkpoint.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.execution.trial_source import Order, Source, Verdict
from orchestrator.store import ResultStore
from orchestrator.store.schema import METRICS, State
from trials.errors import StoreError
from trials.record import RECORD_COLUMNS, EpochRecord
from trials.spec import TrialSpec


@dataclass(frozen=True)
class Table:
    """The trials of a store that are complete: the records of each, in order."""

    records: Mapping[str, Sequence[EpochRecord]]

    @classmethod
    def of(cls, store: ResultStore) -> Table:
        """Read a store. Raises StoreError."""
        rows = store.trials(["state", "trainable_params", "total_params", "best_metrics", "device"]).to_pylist()
        complete = {row["trial_id"]: row for row in rows if row["state"] == State.COMPLETED}
        epochs: dict[str, list[dict[str, Any]]] = {}
        for row in store.epochs().drop_columns(["step_losses"]).to_pylist():
            if row["trial_id"] in complete:
                epochs.setdefault(row["trial_id"], []).append(row)
        return cls({i: [_record(row, complete[i], row is found[-1]) for row in found] for i, found in epochs.items()})

    def of_trial(self, spec: TrialSpec) -> Sequence[EpochRecord]:
        """The records of a trial. Raises StoreError: the store does not have it complete."""
        found = self.records.get(spec.trial_id)
        if found is None:
            raise StoreError(
                f"{spec.label}: is not complete in the store that is simulated from. Run the sweep there as a grid."
            )
        return found


@dataclass
class Spent:
    """What a simulated sweep came to.

    Attributes:
        epochs: That were run, each once.
        trials: That were begun.
        seconds: From the first trial's start to the last one's end.
    """

    epochs: float = 0.0
    trials: int = 0
    seconds: float = 0.0


@dataclass(order=True)
class _Running:
    """A trial on a slot: when its next evaluation is told, and which that is."""

    at_s: float
    number: int  # so that equals come in the order they began
    order: Order = field(compare=False)
    records: Sequence[EpochRecord] = field(compare=False)
    index: int = field(compare=False)


def simulate(source: Source, table: Table, *, slots: int = 1) -> Spent:
    """Run a source to its end on a table, with so many trials at the same time.

    Raises:
        StoreError: the source gives a trial that the table does not have.
    """
    spent, running, done, now = Spent(), list[_Running](), dict[str, float](), 0.0
    n_begun = 0
    while True:
        while len(running) < slots and (order := source.next()) is not None:
            records = table.of_trial(order.spec)
            begun = done.setdefault(order.spec.trial_id, 0.0)
            spent.trials += begun == 0.0
            n_begun += 1
            heapq.heappush(running, _Running(now + _took(records, 0, begun), n_begun, order, records, 0))
        if not running:
            return spent
        one = heapq.heappop(running)
        now = spent.seconds = one.at_s
        if _told(one, source, done, spent):
            one.index += 1
            trial = one.order.spec.trial_id
            one.at_s = now + _took(one.records, one.index, done[trial])
            heapq.heappush(running, one)


def _told(one: _Running, source: Source, done: dict[str, float], spent: Spent) -> bool:
    """Tell of an evaluation; whether the trial goes on."""
    record, spec = one.records[one.index], one.order.spec
    spent.epochs += max(0.0, record.epoch - done[spec.trial_id])
    done[spec.trial_id] = max(done[spec.trial_id], record.epoch)
    verdict = source.evaluated(spec, record)
    if record.last:
        source.ended(spec, State.COMPLETED)
    elif verdict is not Verdict.CONTINUE:
        source.ended(spec, State.PRUNED)
    return not record.last and verdict is Verdict.CONTINUE


def _took(records: Sequence[EpochRecord], index: int, done: float) -> float:
    """Seconds to an evaluation from the one before; of one that was told before the trial was paused: none."""
    record = records[index]
    return 0.0 if record.epoch <= done + 1e-9 else record.setup_s + record.prefix_s + record.train_s + record.eval_s


def _record(row: Mapping[str, Any], trial: Mapping[str, Any], last: bool) -> EpochRecord:
    """An epoch's row as the record it was; what no search asks for is left at nothing."""
    stored = {name: row[name] for name, column in RECORD_COLUMNS.items() if column.per_epoch and name in row}
    values = stored | {
        "step_losses": (),
        "metrics": {name: row[name] for name in METRICS if row.get(name) is not None},
        "test_score": None,
        "test_metrics": None,
        "reports": (),
        "last": last,
        "total_params": trial["total_params"],
        "trainable_params": trial["trainable_params"],
        "device": trial["device"],
        "prefix_layers": 0,
        "threads": 1,
        "gpus": 0.0,
        "accumulation": 1,
        "time": row["time"].timestamp(),
    }
    return EpochRecord(**values)
