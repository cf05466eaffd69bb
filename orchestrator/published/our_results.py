"""Our side of a comparison: completed trials, put together by set-up and cell, and what each metric is over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.published.study_parts import Metric
from orchestrator.store.schema import State
from orchestrator.store.specs import stored_spec
from trials.spec import TrialSpec

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        low, high: Ends of its 95 % t-interval; None with one seed.
        n: Seeds.
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
    """Trials that differ in nothing but freeze and seed; `cells` are those of one freeze, by cell id."""

    cells: Mapping[str, tuple[Trial, ...]]

    @property
    def spec(self) -> TrialSpec:
        """Any of its specs, a frozen one where there is one: its settings are those of all."""
        specs = [trials[0].spec for trials in self.cells.values()]
        return next((spec for spec in specs if not spec.freeze.is_baseline), specs[0])

    @property
    def trials(self) -> list[Trial]:
        """All of them."""
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
    """The trials by set-up; a baseline belongs to every set-up it is the baseline of."""
    cells: dict[str, list[Trial]] = {}
    for trial in trials:
        cells.setdefault(trial.spec.cell_id, []).append(trial)
    found: dict[tuple[str, bool | None], dict[str, tuple[Trial, ...]]] = {}
    baselines = {}
    for cell_id, cell in cells.items():
        spec = cell[0].spec
        if spec.freeze.is_baseline:
            baselines[cell_id] = tuple(cell)
        else:
            found.setdefault((spec.baseline_id, spec.frozen_dropout), {})[cell_id] = tuple(cell)
    for cell_id, baseline in baselines.items():
        having = [members for (base, _), members in found.items() if base == cell_id]
        for members in having or [found.setdefault((cell_id, None), {})]:
            members[cell_id] = baseline
    return [Setup(members) for members in found.values()]


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and 95 % t-interval of one value or more."""
    from scipy.stats import t

    n, mean = len(values), statistics.fmean(values)
    if n < 2:
        return Estimate(mean, None, None, n)
    half = float(t.ppf(0.975, n - 1)) * statistics.stdev(values) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def measure(
    metric: Metric, at_epoch: int | None, cell: Sequence[Trial], baseline: Sequence[Trial], *, column: str | None = None
) -> Estimate | None:
    """What a published metric is in a cell of ours; None where our rows do not have it.

    A quality is that of the published split and evaluation (or of the one after `at_epoch` epochs), a difference is
    paired by seed, a saving of time is paired by seed on the same device. `column` is the metric's first, if not given.
    """
    column = column or metric.columns[0]
    if column in _COSTS:
        values = _COSTS[column](cell, baseline)
    elif metric.to_baseline:
        pairs = _paired(cell, baseline)
        scores = [(_score(a, column, metric, at_epoch), _score(b, column, metric, at_epoch)) for a, b in pairs]
        values = [ours - base for ours, base in scores if ours is not None and base is not None]
    else:
        found = [_score(trial, column, metric, at_epoch) for trial in cell]
        values = [value for value in found if value is not None]
    return estimate(values) if values else None


def _score(trial: Trial, column: str, metric: Metric, at_epoch: int | None) -> float | None:
    """A quality of one trial; where the published evaluation is unknown, the last one."""
    if metric.split == "test":
        value = dict(trial.row.get("test_metrics") or ()).get(column)
        return None if value is None else float(value)
    rows = [row for row in trial.epochs if row.get(column) is not None]
    if at_epoch is not None:
        rows = [row for row in rows if math.isclose(row["epoch"], at_epoch, abs_tol=1e-6)]
    if not rows:
        return None
    return float(max(row[column] for row in rows) if metric.epoch == "best" else rows[-1][column])


def _paired(cell: Sequence[Trial], baseline: Sequence[Trial]) -> list[tuple[Trial, Trial]]:
    base = {trial.spec.seed: trial for trial in baseline}
    return [(trial, base[trial.spec.seed]) for trial in cell if trial.spec.seed in base]


def _saved_train(cell: Sequence[Trial], baseline: Sequence[Trial]) -> list[float]:
    return [
        1 - ours.row["train_s"] / base.row["train_s"]
        for ours, base in _paired(cell, baseline)
        if ours.row.get("train_s") is not None and base.row.get("train_s") and _device(ours) == _device(base)
    ]


def _device(trial: Trial) -> object:
    return trial.row.get("device")


def _of_row(figure: Callable[[Row], float]) -> Callable[[Sequence[Trial], Sequence[Trial]], list[float]]:
    """Counts are those of the model and the freeze, the same under every seed; one is enough."""

    def counted(cell: Sequence[Trial], baseline: Sequence[Trial]) -> list[float]:
        return [figure(trial.row) for trial in cell if trial.row.get("total_params")][:1]

    return counted


_COSTS: dict[str, Callable[[Sequence[Trial], Sequence[Trial]], list[float]]] = {
    "total_params": _of_row(lambda row: row["total_params"]),
    "trainable_params": _of_row(lambda row: row["trainable_params"]),
    "trainable_share": _of_row(lambda row: row["trainable_params"] / row["total_params"]),
    "saved_params": _of_row(lambda row: 1 - row["trainable_params"] / row["total_params"]),
    "saved_train": _saved_train,
}
COUNTED = frozenset(_COSTS) - {"saved_train"}  # the same under every seed: no interval to speak of
RELATIVE = frozenset({"saved_train", "saved_params"})  # 0 for the baseline, by definition
