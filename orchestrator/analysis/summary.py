"""What a sweep found, one row a cell: the numbers of the terminal's tables, from the definitions of this package.

A plug-in adds a statistic: a number of a setting, from its completed trials, as a column of these tables.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.cells import cell_specs
from trials.errors import ConfigError, StoreError, reason
from trials.plugins.registry import Registry
from trials.spec import TrialSpec

if TYPE_CHECKING:  # plans, help texts and the follower load without pandas
    import pandas as pd


@dataclass(frozen=True)
class Statistic:
    """A number of a setting.

    Attributes:
        label: The head of its column, with its unit: `worst seed (%)`.
        function: From the completed trials of a setting, a row each with the columns of `trial_frame`, to the number;
            NaN where there is none.
    """

    label: str
    function: Callable[[pd.DataFrame], float]


STATISTICS: Registry[Statistic] = Registry("statistic")


def statistics_of(completed: pd.DataFrame) -> dict[str, dict[str, float]]:
    """By label, each statistic of every `cell` of a frame of completed trials with the columns of `trial_frame`.

    Raises:
        ConfigError: A statistic raises.
    """
    if not STATISTICS.values():
        return {}
    groups = [(str(cell), rows) for cell, rows in completed.groupby("cell", sort=False)]
    return {
        statistic.label: {cell: _value(name, statistic, rows) for cell, rows in groups}
        for name, statistic in STATISTICS.items()
    }


def _value(name: str, statistic: Statistic, rows: pd.DataFrame) -> float:
    try:
        return float(statistic.function(rows))
    except Exception as error:  # anything can be wrong with another's code
        cause = f"{type(error).__name__}: {reason(error)}"
        raise ConfigError(
            f"statistic {name}: {cause}, for the {len(rows)} trials of {rows['freeze'].iloc[0]}."
        ) from error


Rows = Mapping[Hashable, Mapping[str, Any]]  # rows of a table by its index: pandas takes 10 us to look one up


@dataclass(frozen=True)
class CellSummary:
    """The replicates of one cell. Only completed trials enter a mean; None where a number is not known.

    Attributes:
        spec: Its first replicate as the sweep declares it.
        states: How those that have ended did.
        score_mean, score_std: Best dev score over seeds, 0..1, and its standard deviation (n - 1).
        test_mean: Test score over seeds.
        training_cost_s: Mean seconds of training, frozen states included (`trial_frame.with_costs`).
        training_flops: Mean floating-point operations of training.
        saved_params, saved_flops, saved_time: Shares of the baseline's trainable parameters, operations and training
            cost that freezing saves, paired by seed (`savings.savings`); 0 for the baseline.
        saved_time_low, saved_time_high: 95 % interval of `saved_time`; None for the baseline and below two pairs.
        slowest: Longest training cost of a replicate over the shortest one.
        froze: What it froze (`freeze_names.freeze_changes_by`); empty for one that freezes the same throughout.
        statistics: Those of plug-ins, by label (`statistics_of`).
    """

    spec: TrialSpec
    planned: int
    states: Counter[str]
    score_mean: float | None = None
    score_std: float | None = None
    test_mean: float | None = None
    training_cost_s: float | None = None
    total_params: int | None = None
    trainable_params: int | None = None
    training_flops: float | None = None
    saved_params: float | None = None
    saved_flops: float | None = None
    saved_time: float | None = None
    saved_time_low: float | None = None
    saved_time_high: float | None = None
    slowest: float | None = None
    froze: str = ""
    statistics: Mapping[str, float] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Completed replicates."""
        return self.states["completed"]

    @property
    def is_baseline(self) -> bool:
        """Whether other cells are compared with it."""
        return self.spec.cell_id == self.spec.baseline_id


def summarise(specs: Sequence[TrialSpec], rows: Iterable[Mapping[str, Any]]) -> list[CellSummary]:
    """The cells of a sweep in its order.

    Args:
        specs: The planned trials.
        rows: Rows of the store's `trials` table, also of other sweeps, with the columns `evidence.TRIAL_COLUMNS`.

    Raises:
        StoreError: A completed trial lacks what every completed trial has.
    """
    from orchestrator.analysis.describe import describe_cells
    from orchestrator.analysis.freeze_names import freeze_changes_by
    from orchestrator.analysis.rows import COMPLETED
    from orchestrator.analysis.savings import FLOPS, savings
    from orchestrator.analysis.trial_frame import trial_frame
    from trials.record import TRAINING_COST

    frame = trial_frame(specs, rows)
    if frame.empty:
        return []
    _check_completed(frame)
    values = ("score", "test_score", TRAINING_COST, FLOPS, "total_params", "trainable_params")
    tables = {value: describe_cells(frame, ["cell"], value).set_index("cell") for value in values}
    described = {value: table.to_dict("index") for value, table in tables.items()}
    # Replicates do the same work: a large ratio tells of neighbours on the machine.
    slowest = (tables[TRAINING_COST]["max"] / tables[TRAINING_COST]["min"]).to_dict()
    saved = savings(frame, ["trainable_params", FLOPS, TRAINING_COST]).set_index(["cost", "cell"]).to_dict("index")
    completed = frame[frame["state"] == COMPLETED]
    states = {cell: Counter(of_cell) for cell, of_cell in frame.dropna(subset="state").groupby("cell")["state"]}
    changing, own = freeze_changes_by(completed, "cell"), statistics_of(completed)
    return [
        CellSummary(
            spec=replicates[0],
            planned=len(replicates),
            states=states.get(cell, Counter()),
            score_mean=_number_or_none(described["score"][cell]["mean"]),
            score_std=_number_or_none(described["score"][cell]["std"]),
            test_mean=_number_or_none(described["test_score"][cell]["mean"]),
            training_cost_s=_number_or_none(described[TRAINING_COST][cell]["mean"]),
            total_params=_count(described["total_params"][cell]["median"]),
            trainable_params=_count(described["trainable_params"][cell]["median"]),
            training_flops=_number_or_none(described[FLOPS][cell]["mean"]),
            saved_params=_share_saved(saved, "trainable_params", cell, replicates[0], described),
            saved_flops=_share_saved(saved, FLOPS, cell, replicates[0], described),
            saved_time=_share_saved(saved, TRAINING_COST, cell, replicates[0], described),
            saved_time_low=_number_or_none(saved.get((TRAINING_COST, cell), {}).get("low", math.nan)),
            saved_time_high=_number_or_none(saved.get((TRAINING_COST, cell), {}).get("high", math.nan)),
            slowest=_number_or_none(slowest[cell]),
            froze=changing.get(cell, ""),
            statistics={label: values.get(cell, math.nan) for label, values in own.items()},
        )
        for cell, replicates in cell_specs(specs).items()
    ]


def _share_saved(saved: Rows, cost: str, cell: str, spec: TrialSpec, described: Mapping[str, Rows]) -> float | None:
    if cell == spec.baseline_id:
        return 0.0 if described[cost][cell]["n"] else None
    return _number_or_none(saved[cost, cell]["saved"]) if described[cost][cell]["n"] else None


def _number_or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _count(value: float) -> int | None:
    return None if math.isnan(value) else int(value)


def _check_completed(frame: pd.DataFrame) -> None:
    done = frame[frame["state"] == "completed"]
    for name in ("score", "train_s", "trainable_params", "total_params"):
        wrong = done[done[name].isna() | ((name == "total_params") & (done[name] < 1))]
        if len(wrong):
            row = wrong.iloc[0]
            raise StoreError(f"trial {row['trial_id']!r} of the store is completed, but its {name} is {row[name]}.")
