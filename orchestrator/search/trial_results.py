"""The progress of a trial, its evaluations and its results, and that of a cell: all replicates of one setting."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from orchestrator.analysis.cells import objective_group
from orchestrator.store import ResultStore
from orchestrator.store.evidence import SENTENCE_COLUMNS, TRIAL_COLUMNS
from orchestrator.store.parts import Changes, Follower
from trials.record import EpochRecord, State, loss_fall
from trials.spec import TrialSpec

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
        sentences: Likewise: split -> those of `evidence.SENTENCE_COLUMNS` that are known.
    """

    evaluations: list[Evaluation] = field(default_factory=list)
    results: Results | None = None
    sentences: Mapping[str, Mapping[str, npt.NDArray[Any]]] = field(default_factory=dict)
    state: State | None = None

    def complete(self, records: Sequence[EpochRecord]) -> None:
        """Take the results from all records of the trial."""
        self.results = results_of(records)
        for report in records[-1].reports:
            lists = {"sentences": report.contributions, "documents": report.documents, "words": report.words}
            self.sentences = {**self.sentences, report.split: _arrays(lists)}

    @property
    def has_collapsed(self) -> bool | None:
        """Whether it learned nothing; None if it is not complete, or if that was not recorded."""
        if self.results is None:
            return None
        from orchestrator.analysis.losses import has_collapsed  # loads scipy

        names = ("score", "constant_score", "loss_fall")
        collapsed = has_collapsed(*(np.array([self.results[name]], np.float64) for name in names))[0]
        return None if np.isnan(collapsed) else bool(collapsed)

    def add(self, evaluation: Evaluation) -> bool:
        """Add an evaluation; False for one that a resumed trial repeats."""
        if self.evaluations and evaluation.epoch <= self.evaluations[-1].epoch + 1e-9:
            return False
        self.evaluations.append(evaluation)
        return True


@dataclass
class Cell:
    """The replicates of one setting, and their progress.

    Attributes:
        specs: The replicates, one per seed.
        progress: That of each, by trial id.
        ends: Ended trials with their state.
    """

    specs: Sequence[TrialSpec]
    progress: dict[str, TrialProgress] = field(default_factory=dict)
    ends: dict[str, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.progress = {spec.trial_id: TrialProgress() for spec in self.specs} | self.progress

    @property
    def cell_id(self) -> str:
        """The id of the cell, common to its trials."""
        return self.specs[0].cell_id

    @property
    def group(self) -> Hashable:
        """The objective group that it is ranked in."""
        return objective_group(self.specs[0])

    @property
    def is_over(self) -> bool:
        """Whether all trials have ended."""
        return len(self.ends) == len(self.specs)

    def results(self) -> list[Results]:
        """Results of the complete trials."""
        return [trial.results for trial in self.progress.values() if trial.results is not None]

    def mean(self, objective: str) -> float | None:
        """Mean of an objective over the complete trials; None if a complete trial lacks it."""
        results = [result.get(objective) for result in self.results()]
        values = [value for value in results if value is not None]
        return statistics.fmean(values) if values and len(values) == len(results) else None


def centre(contributions: npt.NDArray[np.floating[Any]] | None, score: float) -> Floats:
    """The contributions (sentences,), which the store rounds to 32 bits, with the exact mean; (1,) without any."""
    if contributions is None:
        return np.array([score])
    values = contributions.astype(np.float64)
    values += score - values.mean()
    return values


def stack_losses(losses: Sequence[Floats]) -> Floats:
    """(seeds, sentences) from the losses of each seed on test, which all seeds share even where dev is in folds;
    (seeds, 1) unless the contributions of every seed are known.
    """
    if len({loss.shape for loss in losses}) > 1:
        losses = [loss.mean(keepdims=True) for loss in losses]
    return np.stack(losses) if losses else np.empty((0, 1))


def results_of(records: Sequence[EpochRecord]) -> Results:
    """The results of a complete trial from its records."""
    best, last = max(records, key=lambda record: record.score), records[-1]
    constant = next((report.constant_score for report in last.reports if report.split == "dev"), None)
    fall = loss_fall([loss for record in records for loss in record.step_losses])
    unselected = dict(zip(UNSELECTED, (last.test_score, constant, fall), strict=True))
    return {**best.metrics, "score": best.score, **unselected}


class StoredTrials:
    """The trials of a store, read on first use; what came since is read where `look_for` wants it.

    Completed attempts that have lost rows are left out: they run again. Contributions are read when a complete trial is
    first asked for.
    """

    def __init__(self, store: ResultStore) -> None:
        self._store, self._lost = store, frozenset[tuple[str, int]]()
        columns = dict.fromkeys((*TRIAL_COLUMNS, "best_metrics", *UNSELECTED))
        self._trials = Follower(store.storage, "trials", tuple(columns))
        self._epochs = Follower(
            store.storage, "epochs", ("trial_id", "attempt", "step", "epoch", "examples_seen", "score")
        )
        self._contributions = Follower(
            store.storage, "contributions", ("trial_id", "attempt", "split", *SENTENCE_COLUMNS.values())
        )
        self._is_read = self._has_contributions = False
        self._rows: dict[str, dict[str, Any]] = {}  # of each trial's newest ended attempt
        self._evaluations: dict[tuple[str, int], dict[int, Evaluation]] = {}  # of each attempt, by step
        self._sentences: dict[tuple[str, int], dict[str, dict[str, npt.NDArray[Any]]]] = {}  # of each attempt, by split

    def look_for(self, trial_id: str) -> None:
        """Read what is new, unless the trial's results are known. For a trial that has ended meanwhile."""
        if self._state_of(trial_id) is not State.COMPLETED:
            self._read()

    def progress(self, trial_id: str) -> TrialProgress:
        """The progress of a trial; a new value on each call."""
        if not self._is_read:
            self._lost = self._store.lost_attempts()
            self._read()
        row = self._rows.get(trial_id)
        if row is None:
            return TrialProgress()  # a running or killed trial resumes from its checkpoint and repeats its evaluations
        key = (trial_id, row["attempt"])
        evaluations = [evaluation for _, evaluation in sorted(self._evaluations.get(key, {}).items())]
        if row["state"] != State.COMPLETED:
            return TrialProgress(evaluations, state=State(row["state"]))
        if key not in self._sentences and not self._has_contributions:
            self._read_contributions()
        return TrialProgress(evaluations, _results_of_row(row), self._sentences.setdefault(key, {}), State.COMPLETED)

    def row(self, trial_id: str) -> Mapping[str, Any]:
        """What the store's table has of the trial's newest ended attempt; empty before one has."""
        return self._rows.get(trial_id, {})

    def _state_of(self, trial_id: str) -> State | None:
        return State(self._rows[trial_id]["state"]) if trial_id in self._rows else None

    def _read(self) -> None:
        """Trials first, as they are written last: the other rows of what they name are there."""
        self._is_read, self._has_contributions = True, False
        trials, epochs = self._trials.poll(), self._epochs.poll()
        if trials.reset:
            self._rows = {}
        if epochs.reset:
            self._evaluations = {}
        for row in _rows_of(trials):
            is_lost = (row["trial_id"], row["attempt"]) in self._lost
            if not is_lost and row["attempt"] >= self._rows.get(row["trial_id"], row)["attempt"]:
                self._rows[row["trial_id"]] = row
        for row in _rows_of(epochs):
            evaluation = Evaluation(row["epoch"], row["examples_seen"], row["score"])
            self._evaluations.setdefault((row["trial_id"], row["attempt"]), {})[row["step"]] = evaluation

    def _read_contributions(self) -> None:
        changes, self._has_contributions = self._contributions.poll(), True
        if changes.reset:
            self._sentences = {}
        for row in _rows_of(changes):
            of_trial = self._sentences.setdefault((row["trial_id"], row["attempt"]), {})
            of_trial[row["split"]] = _arrays({name: row[column] for name, column in SENTENCE_COLUMNS.items()})


def _arrays(lists: Mapping[str, Sequence[float] | None]) -> dict[str, npt.NDArray[Any]]:
    """The lists that are known as arrays, in the precision of the store."""
    kinds = {name: np.float32 if name == "sentences" else np.int32 for name in lists}
    return {name: np.array(values, kinds[name]) for name, values in lists.items() if values}


def _rows_of(changes: Changes) -> Iterator[dict[str, Any]]:
    """The new rows; of a part that cannot be read none, as the plan has reported it."""
    for table in changes.rows:
        yield from table.to_pylist()


def _results_of_row(row: Mapping[str, Any]) -> Results:
    scores = {"score": row["best_score"]} | {name: row[name] for name in UNSELECTED}
    return {**dict(row["best_metrics"] or ()), **scores}
