"""What is known of a trial so far: its evaluations, and, once it is complete, what it gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orchestrator.store import ResultStore
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import COSTS
from trials.record import EpochRecord, trial_totals

Results = Mapping[str, float | None]  # objective -> what a complete trial gave


class Evaluation(NamedTuple):
    """One look at dev: after how many epochs and examples, and the score."""

    epoch: float
    examples: int
    score: float


@dataclass
class Seen:
    """A trial's evaluations in order; `results` of a complete one; `state` of one that has ended."""

    evaluations: list[Evaluation] = field(default_factory=list)
    results: Results | None = None
    state: State | None = None

    def add(self, evaluation: Evaluation) -> bool:
        """Take in a new one; False for one that a resumed trial tells again."""
        if self.evaluations and evaluation.epoch <= self.evaluations[-1].epoch + 1e-9:
            return False
        self.evaluations.append(evaluation)
        return True

    def best(self, until: float = float("inf")) -> float:
        """The best score up to the first evaluation at or after an epoch, which is where a trial pauses."""
        n = sum(one.epoch < until - 1e-9 for one in self.evaluations)
        return max(one.score for one in self.evaluations[: n + 1])


def results_of(records: Iterable[EpochRecord]) -> Results:
    """What the records of a complete trial come to."""
    all_of = list(records)
    best, last = max(all_of, key=lambda record: record.score), all_of[-1]
    known = trial_totals(all_of) | {"trainable_params": last.trainable_params}
    costs = {name: None if known[name] is None else float(known[name]) for name in COSTS}
    return {**best.metrics, "score": best.score, **costs}


class StoredTrials:
    """What a store has of trials, read once when somebody asks for the first time."""

    def __init__(self, store: ResultStore) -> None:
        self._store = store
        self._trials: dict[str, dict[str, Any]] | None = None
        self._evaluations: dict[str, list[Evaluation]] = {}

    def of(self, trial_id: str) -> Seen:
        """A value of its own for each asker."""
        if self._trials is None:
            self._trials = self._read()
        row, evaluations = self._trials.get(trial_id), self._evaluations.get(trial_id, [])
        if row is None:
            return Seen()  # one that runs or was killed goes on from its checkpoint and tells its evaluations again
        state = State(row["state"])
        return Seen(list(evaluations), _stored(row) if state is State.COMPLETED else None, state)

    def _read(self) -> dict[str, dict[str, Any]]:
        epochs = self._store.epochs().select(["trial_id", "epoch", "examples_seen", "score"])
        for one in epochs.to_pylist():
            found = Evaluation(one["epoch"], one["examples_seen"], one["score"])
            self._evaluations.setdefault(one["trial_id"], []).append(found)
        rows = self._store.trials(["state", "best_score", "best_metrics", *COSTS]).to_pylist()
        return {row["trial_id"]: row for row in rows}


def _stored(row: Mapping[str, Any]) -> Results:
    costs = {name: None if row[name] is None else float(row[name]) for name in COSTS}
    return {**dict(row["best_metrics"] or ()), "score": row["best_score"], **costs}
