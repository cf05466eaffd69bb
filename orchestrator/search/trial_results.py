"""The progress of a trial: its evaluations and, once it is complete, its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orchestrator.store import ResultStore
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import COSTS
from trials.record import EpochRecord, trial_totals

Results = Mapping[str, float | None]  # objective -> value of a complete trial


class Evaluation(NamedTuple):
    """One evaluation on dev: epochs and examples so far, and the score."""

    epoch: float
    examples: int
    score: float


@dataclass
class TrialProgress:
    """The evaluations of a trial in order, its `results` once complete and its `state` once ended."""

    evaluations: list[Evaluation] = field(default_factory=list)
    results: Results | None = None
    state: State | None = None

    def add(self, evaluation: Evaluation) -> bool:
        """Add an evaluation; False for one that a resumed trial repeats."""
        if self.evaluations and evaluation.epoch <= self.evaluations[-1].epoch + 1e-9:
            return False
        self.evaluations.append(evaluation)
        return True

    def best(self, until: float = float("inf")) -> float:
        """The best score up to the first evaluation at or after epoch `until`, where a trial pauses."""
        n = sum(evaluation.epoch < until - 1e-9 for evaluation in self.evaluations)
        return max(evaluation.score for evaluation in self.evaluations[: n + 1])


def results_of(records: Iterable[EpochRecord]) -> Results:
    """The results of a complete trial from its records."""
    all_of = list(records)
    best, last = max(all_of, key=lambda record: record.score), all_of[-1]
    totals = trial_totals(all_of) | {"trainable_params": last.trainable_params}
    return {**best.metrics, "score": best.score, **_costs(totals)}


class StoredTrials:
    """The trials of a store, read once on first use."""

    def __init__(self, store: ResultStore) -> None:
        self._store = store
        self._trials: dict[str, dict[str, Any]] | None = None
        self._evaluations: dict[str, list[Evaluation]] = {}

    def of(self, trial_id: str) -> TrialProgress:
        """The progress of a trial; a new value on each call."""
        if self._trials is None:
            self._trials = self._read()
        row, evaluations = self._trials.get(trial_id), self._evaluations.get(trial_id, [])
        if row is None:
            return TrialProgress()  # a running or killed trial resumes from its checkpoint and repeats its evaluations
        state = State(row["state"])
        return TrialProgress(list(evaluations), _stored(row) if state is State.COMPLETED else None, state)

    def _read(self) -> dict[str, dict[str, Any]]:
        epochs = self._store.epochs().select(["trial_id", "epoch", "examples_seen", "score"])
        for row in epochs.to_pylist():
            evaluation = Evaluation(row["epoch"], row["examples_seen"], row["score"])
            self._evaluations.setdefault(row["trial_id"], []).append(evaluation)
        rows = self._store.trials(["state", "best_score", "best_metrics", *COSTS]).to_pylist()
        return {row["trial_id"]: row for row in rows}


def _stored(row: Mapping[str, Any]) -> Results:
    return {**dict(row["best_metrics"] or ()), "score": row["best_score"], **_costs(row)}


def _costs(values: Mapping[str, Any]) -> Results:
    return {name: None if values[name] is None else float(values[name]) for name in COSTS}
