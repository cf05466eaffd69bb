"""Our side of a comparison: completed trials by set-up and cell, and each metric over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from orchestrator.analysis.cells import by_cell
from orchestrator.analysis.describe import describe_cells
from orchestrator.analysis.paired import differences
from orchestrator.analysis.savings import savings
from orchestrator.analysis.trial_frame import TRAINING_COST, trial_frame
from orchestrator.published.study_parts import Metric
from orchestrator.store.schema import State
from orchestrator.store.specs import stored_spec
from trials.spec import TrialSpec

Row = Mapping[str, Any]


@dataclass(frozen=True)
class SeedMean:
    """A mean over seeds.

    Attributes:
        low, high: Ends of its 95 % interval (`analysis.describe`, `analysis.paired`, `analysis.savings`); None with one
            seed.
        n: Seeds, or pairs of seeds.
    """

    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Trial:
    """A completed trial: its spec, its row of `trials`, its rows of `epochs` by step."""

    spec: TrialSpec
    row: Row
    epochs: tuple[Row, ...]


@dataclass(frozen=True)
class Setup:
    """Trials that differ only in freeze and seed; `cells` maps cell ids to the trials of one freeze."""

    cells: Mapping[str, tuple[Trial, ...]]

    @property
    def spec(self) -> TrialSpec:
        """One of its specs, a frozen one if there is any; the shared settings are those of all."""
        specs = [trials[0].spec for trials in self.cells.values()]
        return next((spec for spec in specs if not spec.freeze.is_baseline), specs[0])

    @property
    def trials(self) -> list[Trial]:
        """The trials of all cells."""
        return [trial for cell in self.cells.values() for trial in cell]

    @property
    def baseline(self) -> tuple[Trial, ...]:
        """The trials that freeze nothing."""
        return self.cells.get(self.spec.baseline_id, ())


def completed(trials: Sequence[Row], epochs: Sequence[Row]) -> list[Trial]:
    """The completed trials of a store's rows."""
    evaluations: dict[str, list[Row]] = {}
    for row in epochs:
        evaluations.setdefault(row["trial_id"], []).append(row)
    return [
        Trial(
            stored_spec(row["spec"], row["trial_id"]),
            row,
            tuple(sorted(evaluations.get(row["trial_id"], ()), key=lambda epoch: epoch["step"])),
        )
        for row in trials
        if row["state"] == State.COMPLETED
    ]


def setups(trials: Sequence[Trial]) -> list[Setup]:
    """The trials by set-up; a baseline belongs to every set-up whose baseline it is."""
    by_id = {trial.spec.trial_id: trial for trial in trials}
    found: dict[tuple[str, bool | None], dict[str, tuple[Trial, ...]]] = {}
    baselines = {}
    for cell_id, specs in by_cell(trial.spec for trial in trials).items():
        spec, cell = specs[0], [by_id[one.trial_id] for one in specs]
        if spec.freeze.is_baseline:
            baselines[cell_id] = tuple(cell)
        else:
            found.setdefault((spec.baseline_id, spec.frozen_dropout), {})[cell_id] = tuple(cell)
    for cell_id, baseline in baselines.items():
        having = [members for (base, _), members in found.items() if base == cell_id]
        for members in having or [found.setdefault((cell_id, None), {})]:
            members[cell_id] = baseline
    return [Setup(members) for members in found.values()]


def measure(
    metric: Metric, at_epoch: int | None, cell: Sequence[Trial], baseline: Sequence[Trial], *, column: str | None = None
) -> SeedMean | None:
    """The value of a published metric in one of our cells; None if our rows do not have it.

    A quality is taken at the published split and evaluation (or after `at_epoch` epochs); differences and savings are
    paired by seed, savings on the same device. `column` defaults to the metric's first.
    """
    column = column or metric.columns[0]
    beside = baseline if column in _SAVED or metric.to_baseline else ()
    trials = list({trial.spec.trial_id: trial for trial in (*cell, *beside)}.values())
    frame = trial_frame([trial.spec for trial in trials], [trial.row for trial in trials])
    cell_id = cell[0].spec.cell_id
    if column in _SAVED:
        return _saved(frame, cell_id, _SAVED[column])
    if column in COUNTED:
        counts = _COUNTS[column](frame).dropna()
        return SeedMean(float(counts.iloc[0]), None, None, 1) if len(counts) else None
    frame = frame.assign(score=[_score(trial, column, metric, at_epoch) for trial in trials]).astype({"score": float})
    if metric.to_baseline:
        found = differences(frame)
        return _estimate(found[found["cell"] == cell_id], "n_pairs")
    return _estimate(describe_cells(frame, ["cell"], "score"), "n")


def _estimate(rows: pd.DataFrame, n: str) -> SeedMean | None:
    """The estimate in a table of at most one row with columns `mean`, `low`, `high`."""
    if rows.empty or math.isnan(rows["mean"].iloc[0]):
        return None
    row = rows.iloc[0]
    has_interval = not math.isnan(row["low"])
    low, high = (float(row[end]) if has_interval else None for end in ("low", "high"))
    return SeedMean(float(row["mean"]), low, high, int(row[n]))


def _saved(frame: pd.DataFrame, cell_id: str, cost: str) -> SeedMean | None:
    """The share of its baseline's cost that a cell saves; 0 for the baseline itself."""
    if (frame["baseline"] == cell_id).all() and len(frame):
        return SeedMean(0.0, None, None, int(frame[cost].notna().sum()))
    found = savings(frame, [cost])
    return _estimate(found[found["cell"] == cell_id].rename(columns={"saved": "mean"}), "n_pairs")


def _score(trial: Trial, column: str, metric: Metric, at_epoch: int | None) -> float | None:
    """The quality of one trial; at the last evaluation if the published one is unknown."""
    if metric.split == "test":
        value = dict(trial.row.get("test_metrics") or ()).get(column)
        return None if value is None else float(value)
    rows = [row for row in trial.epochs if row.get(column) is not None]
    if at_epoch is not None:
        rows = [row for row in rows if math.isclose(row["epoch"], at_epoch, abs_tol=1e-6)]
    if not rows:
        return None
    return float(max(row[column] for row in rows) if metric.epoch == "best" else rows[-1][column])


_SAVED = {"saved_params": "trainable_params", "saved_train": TRAINING_COST}  # published saving -> the cost saved
_COUNTS: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "total_params": lambda frame: frame["total_params"],
    "trainable_params": lambda frame: frame["trainable_params"],
    "trainable_share": lambda frame: frame["trainable_params"] / frame["total_params"],
}
COUNTED = frozenset({*_COUNTS, "saved_params"})  # equal under every seed, so without an interval
RELATIVE = frozenset(_SAVED)  # 0 for the baseline, by definition
