"""The progress of a trial: its evaluations and, once it is complete, its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from orchestrator.store import ResultStore
from orchestrator.store.evidence import Contributions, stored_contributions
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import COSTS
from trials.record import EpochRecord, loss_fall, trial_totals

UNSELECTED = ("test_score", "constant_score", "loss_fall")  # results that no search may have as an objective
Results = Mapping[str, float | None]  # objective, or one of `UNSELECTED` -> value of a complete trial
Floats = npt.NDArray[np.float64]


class Evaluation(NamedTuple):
    """One evaluation on dev: epochs and examples so far, and the score."""

    epoch: float
    examples: int
    score: float


@dataclass
class TrialProgress:
    """The progress of a trial.

    Attributes:
        evaluations: In order.
        results: Once it is complete.
        contributions: Likewise.
    """

    evaluations: list[Evaluation] = field(default_factory=list)
    results: Results | None = None
    contributions: Contributions = field(default_factory=dict)
    state: State | None = None

    def complete(self, records: Sequence[EpochRecord]) -> None:
        """Take the results from all records of the trial."""
        self.results = results_of(records)
        reports = [report for report in records[-1].reports if report.contributions]
        self.contributions = {report.split: np.array(report.contributions, np.float32) for report in reports}

    @property
    def has_collapsed(self) -> bool | None:
        """Whether it learned nothing; None if it is not complete, or if that was not recorded."""
        if self.results is None:
            return None
        from orchestrator.analysis.collapse import has_collapsed  # loads scipy

        names = ("score", "constant_score", "loss_fall")
        collapsed = has_collapsed(*(np.array([self.results[name]], np.float64) for name in names))[0]
        return None if np.isnan(collapsed) else bool(collapsed)

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


def paired_loss(baseline: TrialProgress, freeze: TrialProgress, split: str = "dev") -> Floats | None:
    """(sentences,) contributions of the baseline less those of the freeze, whose mean is the loss in the score.

    (1,) where contributions are not known of both; None where a trial is not complete or has no score on the split.
    """
    name = "score" if split == "dev" else "test_score"
    scores = [trial.results[name] if trial.results is not None else None for trial in (baseline, freeze)]
    if scores[0] is None or scores[1] is None:
        return None
    theirs, ours = (trial.contributions.get(split) for trial in (baseline, freeze))
    if theirs is None or ours is None or theirs.shape != ours.shape:
        return centred(None, scores[0] - scores[1])
    return centred(theirs.astype(np.float64) - ours, scores[0] - scores[1])


def centred(contributions: npt.NDArray[np.floating[Any]] | None, score: float) -> Floats:
    """The contributions (sentences,), which the store rounds to 32 bits, with the exact mean; (1,) without any."""
    if contributions is None:
        return np.array([score])
    values = contributions.astype(np.float64)
    values += score - values.mean()
    return values


def stacked(losses: Sequence[Floats]) -> Floats:
    """(seeds, sentences) from those of each seed; (seeds, 1) where contributions are not known of every seed."""
    if len({loss.shape for loss in losses}) > 1:
        losses = [loss.mean(keepdims=True) for loss in losses]
    return np.stack(losses) if losses else np.empty((0, 1))


def results_of(records: Sequence[EpochRecord]) -> Results:
    """The results of a complete trial from its records."""
    best, last = max(records, key=lambda record: record.score), records[-1]
    totals = trial_totals(records) | {"trainable_params": last.trainable_params}
    constant = next((report.constant_score for report in last.reports if report.split == "dev"), None)
    fall = loss_fall([loss for record in records for loss in record.step_losses])
    unselected = dict(zip(UNSELECTED, (last.test_score, constant, fall), strict=True))
    return {**best.metrics, "score": best.score, **unselected, **_costs(totals)}


class StoredTrials:
    """The trials of a store, read on first use, and again where `look_for` finds that a trial has ended since.

    Contributions are read when a complete trial is first asked for.
    """

    def __init__(self, store: ResultStore) -> None:
        self._store = store
        self._forget()

    def look_for(self, trial_id: str) -> None:
        """Read the store again, unless what was read has the trial's results. For a trial that has ended meanwhile."""
        if self.of(trial_id).results is None:
            self._forget()

    def _forget(self) -> None:
        self._trials: dict[str, dict[str, Any]] | None = None
        self._evaluations: dict[str, list[Evaluation]] = {}
        self._contributions: dict[str, Contributions] | None = None

    def of(self, trial_id: str) -> TrialProgress:
        """The progress of a trial; a new value on each call."""
        if self._trials is None:
            self._trials = self._read()
        row, evaluations = self._trials.get(trial_id), self._evaluations.get(trial_id, [])
        if row is None:
            return TrialProgress()  # a running or killed trial resumes from its checkpoint and repeats its evaluations
        state = State(row["state"])
        if state is not State.COMPLETED:
            return TrialProgress(list(evaluations), state=state)
        if self._contributions is None:
            self._contributions = stored_contributions(self._store)
        return TrialProgress(list(evaluations), _stored(row), self._contributions.get(trial_id, {}), state)

    def _read(self) -> dict[str, dict[str, Any]]:
        epochs = self._store.epochs().select(["trial_id", "epoch", "examples_seen", "score"])
        for row in epochs.to_pylist():
            evaluation = Evaluation(row["epoch"], row["examples_seen"], row["score"])
            self._evaluations.setdefault(row["trial_id"], []).append(evaluation)
        rows = self._store.trials(["state", "best_score", "best_metrics", *UNSELECTED, *COSTS]).to_pylist()
        return {row["trial_id"]: row for row in rows}


def _stored(row: Mapping[str, Any]) -> Results:
    scores = {"score": row["best_score"]} | {name: row[name] for name in UNSELECTED}
    return {**dict(row["best_metrics"] or ()), **scores, **_costs(row)}


def _costs(values: Mapping[str, Any]) -> Results:
    return {name: None if values[name] is None else float(values[name]) for name in COSTS}
