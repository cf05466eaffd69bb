"""The accuracy of forecasts: each figure beside what happened.

A launch stores its forecast when it starts. It is compared with the trials that end before the next launch of the
sweep. The whole is only compared if all its trials ended in that time: no forecast covers an interruption.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.forecast.archive import stored_forecasts
from orchestrator.forecast.figure import Figure
from orchestrator.forecast.values import HOUR, Forecast
from orchestrator.store import ResultStore
from orchestrator.store.schema import State
from trials.record import ACCRUED, known_sum, memory_bytes, spent_s

Row = Mapping[str, Any]
_COLUMNS = [
    "state", "setup_s", "prefix_s", "prefix_paid_s", "train_s", "eval_s", *ACCRUED, "peak_memory_bytes",
    "worker_memory_bytes", "gpus", "threads", "time",
]  # fmt: skip


@dataclass(frozen=True)
class Scored:
    """A figure and the observed value.

    Attributes:
        what: The quantity, with its unit.
    """

    what: str
    figure: Figure
    actual: float

    @property
    def error(self) -> float:
        """Relative error of the median."""
        return self.figure.median / self.actual - 1

    @property
    def inside(self) -> bool:
        """Whether the interval contains the observed value."""
        return self.figure.holds(self.actual)


@dataclass(frozen=True)
class Score:
    """The accuracy of one forecast.

    Attributes:
        whole: The figures of the whole sweep; empty if the sweep was interrupted.
        cells: Seconds per trial of each cell with ended trials.
    """

    forecast: Forecast
    whole: tuple[Scored, ...]
    cells: tuple[Scored, ...]

    @property
    def median_error(self) -> float:
        """Median absolute relative error over the cells."""
        return statistics.median(abs(cell.error) for cell in self.cells)

    @property
    def coverage(self) -> float:
        """Share of the cells whose interval contains the observed value."""
        return statistics.fmean(cell.inside for cell in self.cells)


def scores(store: ResultStore, sweep: str) -> list[Score]:
    """The accuracy of the forecasts of a sweep that have ended trials. Raises StoreError, BrokenError."""
    stored = [forecast for forecast in stored_forecasts(store.storage, sweep) if forecast.is_known]
    if not stored:
        return []
    rows = [row for row in store.trials(_COLUMNS).to_pylist() if row["state"] == State.COMPLETED]
    ends = [forecast.time for forecast in stored[1:]] + [float("inf")]
    scored = [score(forecast, rows, until=end) for forecast, end in zip(stored, ends, strict=True)]
    return [one for one in scored if one.cells]


def score(forecast: Forecast, rows: Iterable[Row], *, until: float = float("inf")) -> Score:
    """Compare a forecast with the rows of trials that completed after it and before the next one."""
    own = {row["trial_id"]: row for row in rows if forecast.time <= row["time"].timestamp() < until and row["train_s"]}
    cells = []
    for cell in forecast.cells:
        ended = [own[trial] for trial in cell.trials if trial in own]
        if ended and cell.seconds:
            cells.append(Scored(cell.label, cell.seconds, statistics.fmean(map(spent_s, ended))))
    everything = [own.get(trial) for cell in forecast.cells for trial in cell.trials]
    complete = [row for row in everything if row is not None]
    whole = _whole(forecast, complete) if len(complete) == len(everything) else ()
    return Score(forecast, whole, tuple(cells))


def _whole(forecast: Forecast, rows: Sequence[Row]) -> tuple[Scored, ...]:
    hours = sum(spent_s(row) * (row["gpus"] or row["threads"]) for row in rows) / HOUR
    pairs = [
        ("wall time, s", forecast.wall_s, max(row["time"].timestamp() for row in rows) - forecast.time),
        ("device-hours", forecast.device_hours, hours),
        *(
            (column.label.replace(" (", ", ").rstrip(")"), forecast.accrued[name], known_sum(row[name] for row in rows))
            for name, column in ACCRUED.items()
        ),
        ("peak memory, bytes", forecast.memory_bytes, max(memory_bytes(row) for row in rows)),
    ]
    return tuple(Scored(what, figure, actual) for what, figure, actual in pairs if figure is not None and actual)
