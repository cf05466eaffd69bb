"""Our side of a comparison: completed trials by set-up and cell, and each metric over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd
from scipy import special

from orchestrator.analysis.cells import by_cell
from orchestrator.analysis.decide import loss_table
from orchestrator.analysis.describe import describe, mean_interval
from orchestrator.analysis.rows import Floats, finite, pair
from orchestrator.analysis.savings import savings
from orchestrator.analysis.trial_frame import trial_frame, with_sentences
from orchestrator.config.quantities import POINTS
from orchestrator.extras.published.study import Metric
from orchestrator.store.evidence import SENTENCE_COLUMNS
from orchestrator.store.plans import stored_spec
from trials.record import TRAINING_COST, State
from trials.spec import TrialSpec

Row = Mapping[str, Any]


@dataclass(frozen=True)
class SeedMean:
    """A mean over seeds.

    Attributes:
        low, high: Ends of its 95 % interval (`analysis.describe`, `analysis.rows`, `analysis.savings`); None with one
            seed.
        n: Seeds, or pairs of seeds.
        std: Over seeds (n - 1), for a saving that of the logarithm of the share left; None with one seed.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    std: float | None = None


@dataclass(frozen=True)
class Trial:
    """A completed trial: its spec, its row of `trials`, its rows of `epochs` by step."""

    spec: TrialSpec
    row: Row
    epochs: Sequence[Row]


@dataclass(frozen=True)
class Setup:
    """Trials that differ only in freeze and seed: those of one freeze, by their seeds, by cell id."""

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

    @cached_property
    def frame(self) -> pd.DataFrame:
        """`analysis.trial_frame` of all cells, by trial id."""
        frame = trial_frame([trial.spec for trial in self.trials], [trial.row for trial in self.trials])
        return frame.set_index("trial_id", drop=False)


def setups(trials: Sequence[Row], epochs: Sequence[Row]) -> list[Setup]:
    """The completed trials of a store's rows by set-up; a baseline belongs to every set-up whose baseline it is.

    `sentences` of a row of `trials` are contributions by split, if known.
    """
    evaluations: dict[str, list[Row]] = {}
    for row in sorted(epochs, key=lambda row: int(row["step"])):
        evaluations.setdefault(row["trial_id"], []).append(row)
    completed = [row for row in trials if row["state"] == State.COMPLETED]
    specs = {row["trial_id"]: stored_spec(row["spec"], row["trial_id"]) for row in completed}
    by_id = {
        row["trial_id"]: Trial(specs[row["trial_id"]], row, evaluations.get(row["trial_id"], [])) for row in completed
    }
    by_setup: dict[tuple[str, bool | None], dict[str, tuple[Trial, ...]]] = {}
    baselines = {}
    for cell_id, members in by_cell(specs.values()).items():
        spec = members[0]
        cell = tuple(by_id[spec.trial_id] for spec in sorted(members, key=lambda spec: spec.seeds.key))
        if spec.freeze.is_baseline:
            baselines[cell_id] = cell
        else:
            by_setup.setdefault((spec.baseline_id, spec.frozen_dropout), {})[cell_id] = cell
    for cell_id, baseline in baselines.items():
        having = [cells for (base, _), cells in by_setup.items() if base == cell_id]
        for cells in having or [by_setup.setdefault((cell_id, None), {})]:
            cells[cell_id] = baseline
    return [Setup(cells) for cells in by_setup.values()]


def measure(metric: Metric, at_epoch: int | None, setup: Setup) -> dict[str, SeedMean | None]:
    """The value of a published metric in each of a set-up's cells; None if our rows do not have it.

    A quality is taken at the published split and evaluation (or after `at_epoch` epochs); differences and savings are
    paired by seed, savings on the same device.
    """
    frame, column = setup.frame, metric.columns[0]
    if column in _SAVED:
        return _saved(setup, _SAVED[column])
    if column in COUNTED:
        counts = _COUNTS[column](frame).groupby(frame["cell"]).first()
        return {cell: _seed_mean(count, math.nan, math.nan, 1) for cell, count in counts.items()}
    scores = {trial.spec.trial_id: _score(trial, column, metric, at_epoch) for trial in setup.trials}
    if not metric.to_baseline:
        of_cells = {cell: finite([scores[t.spec.trial_id] for t in trials]) for cell, trials in setup.cells.items()}
        return {
            cell: _seed_mean(describe(values).mean, *mean_interval(values, "score"), len(values), values)
            for cell, values in of_cells.items()
        }
    sentences = {trial.spec.trial_id: trial.row.get("sentences", {}).get(metric.split, {}) for trial in setup.trials}
    of_sentences = {name: {i: of.get(name) for i, of in sentences.items()} for name in SENTENCE_COLUMNS}
    frame = with_sentences(frame.assign(score=pd.Series(scores)), of_sentences, metric.split)
    pairs = dict(list(pair(frame).rows.groupby("cell")["difference"]))
    ends = ["loss", "low", "high"]
    table = loss_table(frame)
    table[ends] = table[ends] / POINTS  # a study's numbers are shares of 1, as its file has them
    return {
        row.cell: _seed_mean(-row.loss, -row.high, -row.low, row.n_pairs, pairs.get(row.cell, ()))
        for row in table.itertuples()
    }


def _saved(setup: Setup, cost: str) -> dict[str, SeedMean | None]:
    """The share of its baseline's cost that each cell saves; 0 for the baseline itself."""
    is_measured = setup.frame.loc[setup.frame["cell"] == setup.spec.baseline_id, cost].notna()
    shares: dict[str, SeedMean | None] = {setup.spec.baseline_id: SeedMean(0.0, None, None, int(is_measured.sum()))}
    for row in savings(setup.frame, [cost]).itertuples():
        shares[row.cell] = mean = _seed_mean(row.saved, row.low, row.high, row.n_pairs)
        if mean and mean.n and mean.low is not None and mean.high is not None:
            half = (math.log1p(-mean.low) - math.log1p(-mean.high)) / 2  # Student's interval of the log ratios
            std = half * math.sqrt(mean.n) / -float(special.stdtrit(mean.n - 1, 0.025))
            shares[row.cell] = replace(mean, std=std)
    return shares


def _seed_mean(mean: float, low: float, high: float, n: int, values: Sequence[float] | Floats = ()) -> SeedMean | None:
    """As numbers of Python; None for a mean that is NaN."""
    if math.isnan(mean):
        return None
    ends = [None if math.isnan(low) else float(end) for end in (low, high)]
    std = describe(values).std if len(values) > 1 else None
    return SeedMean(float(mean), ends[0], ends[1], int(n), std)


def _score(trial: Trial, column: str, metric: Metric, at_epoch: int | None) -> float:
    """The quality of one trial, NaN for none; at the last evaluation if the published one is unknown."""
    if metric.split == "test":
        value = dict(trial.row.get("test_metrics") or ()).get(column)
        return math.nan if value is None else float(value)
    rows = [row for row in trial.epochs if row.get(column) is not None]
    if at_epoch is not None:
        rows = [row for row in rows if math.isclose(row["epoch"], at_epoch, abs_tol=1e-6)]
    if not rows:
        return math.nan
    return float(max(row[column] for row in rows) if metric.epoch == "best" else rows[-1][column])


_SAVED = {"saved_params": "trainable_params", "saved_train": TRAINING_COST}  # published saving -> the cost saved
_COUNTS: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "total_params": lambda frame: frame["total_params"],
    "trainable_params": lambda frame: frame["trainable_params"],
    "trainable_share": lambda frame: frame["trainable_params"] / frame["total_params"],
}
COUNTED = frozenset({*_COUNTS, "saved_params"})  # equal under every seed, so without an interval
RELATIVE = frozenset(_SAVED)  # 0 for the baseline, by definition
