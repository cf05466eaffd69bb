"""How right a forecast was: each of its figures beside what happened.

A launch keeps its forecast when it starts. What ended until the next launch of the sweep is its own; the whole is only
compared where all of its trials ended in that time, as the pause of an interrupted sweep is nobody's forecast.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.forecast.archive import kept_forecasts
from orchestrator.forecast.figure import Figure
from orchestrator.forecast.values import HOUR, Forecast
from orchestrator.store import ResultStore
from orchestrator.store.schema import State

Row = Mapping[str, Any]
_COLUMNS = [
    "state", "setup_s", "prefix_s", "train_s", "eval_s", "energy_j", "peak_memory_bytes", "gpus", "threads", "time",
]  # fmt: skip


@dataclass(frozen=True)
class Scored:
    """A figure and what happened.

    Attributes:
        what: In words, with the unit.
        figure: The forecast.
        actual: What happened.
    """

    what: str
    figure: Figure
    actual: float

    @property
    def error(self) -> float:
        """Of the median, relative to what happened."""
        return self.figure.median / self.actual - 1

    @property
    def inside(self) -> bool:
        """Whether the interval held it."""
        return self.figure.holds(self.actual)


@dataclass(frozen=True)
class Score:
    """Of one forecast.

    Attributes:
        forecast: The forecast.
        whole: Its figures of the whole sweep; none where the sweep was interrupted.
        cells: Seconds of a trial, of each cell that has ended.
    """

    forecast: Forecast
    whole: tuple[Scored, ...]
    cells: tuple[Scored, ...]

    @property
    def median_error(self) -> float:
        """Median absolute error over the cells."""
        return statistics.median(abs(cell.error) for cell in self.cells)

    @property
    def coverage(self) -> float:
        """Share of the cells whose interval held."""
        return statistics.fmean(cell.inside for cell in self.cells)


def scores(store: ResultStore, sweep: str) -> list[Score]:
    """The scores of a sweep's forecasts, of those that anything has ended of. Raises what reading the store raises."""
    kept = [one for one in kept_forecasts(store.storage, sweep) if one.is_known]
    if not kept:
        return []
    rows = [row for row in store.trials(_COLUMNS).to_pylist() if row["state"] == State.COMPLETED]
    ends = [one.time for one in kept[1:]] + [float("inf")]
    found = [score(one, rows, until=end) for one, end in zip(kept, ends, strict=True)]
    return [one for one in found if one.cells]


def score(found: Forecast, rows: Iterable[Row], *, until: float = float("inf")) -> Score:
    """Compare a forecast with the rows of trials that completed after it and before the next one."""
    own = {row["trial_id"]: row for row in rows if found.time <= row["time"].timestamp() < until and row["train_s"]}
    cells = []
    for cell in found.cells:
        ended = [own[trial] for trial in cell.trials if trial in own]
        if ended and cell.seconds:
            cells.append(Scored(cell.label, cell.seconds, statistics.fmean(map(_seconds, ended))))
    everything = [own.get(trial) for cell in found.cells for trial in cell.trials]
    complete = [row for row in everything if row is not None]
    whole = _whole(found, complete) if len(complete) == len(everything) else ()
    return Score(found, whole, tuple(cells))


def _whole(found: Forecast, rows: Sequence[Row]) -> tuple[Scored, ...]:
    hours = sum(_seconds(row) * (row["gpus"] or row["threads"]) for row in rows) / HOUR
    joules = [row["energy_j"] for row in rows]
    pairs = [
        ("wall time, s", found.wall_s, max(row["time"].timestamp() for row in rows) - found.time),
        ("device-hours", found.device_hours, hours),
        ("energy, J", found.energy_j, None if None in joules else sum(joules)),
        ("peak memory, bytes", found.memory_bytes, max(row["peak_memory_bytes"] for row in rows)),
    ]
    return tuple(Scored(what, figure, actual) for what, figure, actual in pairs if figure is not None and actual)


def _seconds(row: Row) -> float:
    return float(row["setup_s"] + (row["prefix_s"] or 0.0) + row["train_s"] + row["eval_s"])
