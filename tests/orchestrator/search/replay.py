"""Replay a search on the finished trials of a store, without training: what it finds and spends.

Trials take as long as they took, several at the same time. A stopped trial has spent its epochs until then.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.execution.trial_queue import End, Source
from orchestrator.store import ResultStore
from orchestrator.store.evidence import sentence_columns
from orchestrator.store.schema import METRICS
from trials.errors import StoreError
from trials.record import RECORD_COLUMNS, EpochRecord, SplitReport, State
from trials.spec import TrialSpec

_OF_TRIAL = ("trainable_params", "total_params", "device", "test_score", "constant_score")
RecordedTrials = Mapping[str, Sequence[EpochRecord]]  # trial id -> the records of a complete trial, in order


def recorded_trials(store: ResultStore, only: Collection[str] | None = None) -> RecordedTrials:
    """The complete trials of a store, or those of them that have these ids. Raises StoreError."""
    rows = store.trials(["state", *_OF_TRIAL]).to_pylist()
    rows = [row for row in rows if only is None or row["trial_id"] in only]
    complete = {row["trial_id"]: row for row in rows if row["state"] == State.COMPLETED}
    sentences = _all_sentences(store.contributions())
    epochs: dict[str, list[dict[str, Any]]] = {}
    table = store.epochs().drop_columns(["step_losses"])
    for row in table.filter(pc.is_in(table["trial_id"], pa.array(complete, pa.string()))).to_pylist():
        epochs.setdefault(row["trial_id"], []).append(row)
    return {
        i: [
            *(_record(row, complete[i]) for row in rows[:-1]),
            _last_record(_record(rows[-1], complete[i]), complete[i], sentences.get(i, {})),
        ]
        for i, rows in epochs.items()
    }


def _all_sentences(contributions: pa.Table) -> dict[str, dict[str, dict[str, npt.NDArray[Any]]]]:
    """All that is stored of sentences: trial id -> split -> those of `SENTENCE_COLUMNS` that are known."""
    by_trial = dict[str, dict[str, dict[str, npt.NDArray[Any]]]]()
    for split in pc.unique(contributions["split"]).to_pylist():
        for name, of_trials in sentence_columns(contributions, split).items():
            for trial_id, values in of_trials.items():
                by_trial.setdefault(trial_id, {}).setdefault(split, {})[name] = values
    return by_trial


@dataclass
class SimulatedCost:
    """What a simulated sweep spends.

    Attributes:
        seconds: From the start of the first trial to the end of the last.
    """

    epochs: float = 0.0
    trials: int = 0
    seconds: float = 0.0


@dataclass(order=True)
class _ReplayedTrial:
    """A trial on a slot: the time of its next evaluation, and the index of that evaluation."""

    at_s: float
    number: int  # so that ties are in the order of their start
    spec: TrialSpec = field(compare=False)
    records: Sequence[EpochRecord] = field(compare=False)
    index: int = field(compare=False)


def simulate(source: Source, recorded: RecordedTrials, *, slots: int = 1) -> SimulatedCost:
    """Run a source to its end on recorded trials, with `slots` trials at the same time.

    Raises:
        StoreError: The source asks for a trial that is not recorded.
    """
    spent, running = SimulatedCost(), list[_ReplayedTrial]()
    while True:
        while len(running) < slots and (spec := source.next()) is not None:
            records = recorded.get(spec.trial_id)
            if records is None:
                raise StoreError(f"{spec.label}: not complete in the store. Run the sweep there as a grid.")
            spent.trials += 1
            at_s = spent.seconds + records[0].spent_s
            heapq.heappush(running, _ReplayedTrial(at_s, spent.trials, spec, records, 0))
        if not running:
            return spent
        trial = heapq.heappop(running)
        spent.seconds = trial.at_s
        if _continues(trial, source, spent):
            trial.index += 1
            trial.at_s += trial.records[trial.index].spent_s
            heapq.heappush(running, trial)


def _continues(trial: _ReplayedTrial, source: Source, spent: SimulatedCost) -> bool:
    """Report an evaluation to the source; whether the trial continues."""
    record, spec = trial.records[trial.index], trial.spec
    spent.epochs += record.epoch - (trial.records[trial.index - 1].epoch if trial.index else 0.0)
    continues = source.evaluated(spec, record)
    if record.last:
        source.ended(End(spec, State.COMPLETED))
    elif not continues:
        source.ended(End(spec, State.PRUNED))
    return continues and not record.last


def _last_record(
    record: EpochRecord, trial: Mapping[str, Any], sentences: Mapping[str, Mapping[str, np.ndarray]]
) -> EpochRecord:
    """The record that ends a trial, with what was measured once."""
    constants, reports = {"dev": trial["constant_score"]}, []
    for split in {**constants, **sentences}:
        per_sentence = {name: tuple(values.tolist()) for name, values in sentences.get(split, {}).items()}
        lists = {"contributions": per_sentence.pop("sentences", ()), **per_sentence}
        reports.append(SplitReport(split, (), constant_score=constants.get(split), **lists))
    return replace(record, last=True, test_score=trial["test_score"], reports=tuple(reports))


def _record(row: Mapping[str, Any], trial: Mapping[str, Any]) -> EpochRecord:
    """The record of an epoch from its row; fields that no search reads are empty."""
    stored = {name: row[name] for name, column in RECORD_COLUMNS.items() if column.per_epoch and name in row}
    values = stored | {
        "step_losses": (),
        "metrics": {name: row[name] for name in METRICS if row.get(name) is not None},
        "test_score": None,
        "test_metrics": None,
        "reports": (),
        "last": False,
        "total_params": trial["total_params"],
        "trainable_params": trial["trainable_params"],
        "device": trial["device"],
        "prefix_layers": 0,
        "threads": 1,
        "gpus": 0.0,
        "worker_slots": None,
        "accumulation": 1,
        "padding_free": None,
        "dev_cut_off": None,
        "train_cut_off": None,
        "time": row["time"].timestamp(),
    }
    return EpochRecord(**values)
