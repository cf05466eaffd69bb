"""The values of a forecast: where trials run, each setting, and the whole sweep."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from orchestrator.sweeps.cluster_spec import Prices

LOW, HIGH = 0.1, 0.9  # the quantiles at the ends of an 80 % interval


@dataclass(frozen=True)
class Figure:
    """A forecast number.

    Attributes:
        low, median, high: Quantiles 0.1, 0.5 and 0.9.
        source: What it is estimated from: `from 36 trials on this device`.
    """

    low: float
    median: float
    high: float
    source: str

    @classmethod
    def of(cls, draws: np.ndarray, source: str) -> Figure:
        """From simulated values, (draws,)."""
        low, median, high = np.quantile(draws, [LOW, 0.5, HIGH])
        return cls(float(low), float(median), float(high), source)


@dataclass(frozen=True)
class Hardware:
    """The hardware that trials run on, and its prices.

    Attributes:
        slots: Trials that run at the same time.
        cpus, gpus: Per trial.
        start_s: Seconds from the launch to its first trial, for Ray and imports.
        kind: The kind of GPU as the price list names it, or the name of the device.
        is_here: Whether it is this machine, so that its cached states of frozen layers can be used.
    """

    slots: int
    cpus: int
    gpus: float
    start_s: float
    prices: Prices
    kind: str = ""
    is_here: bool = False

    @property
    def hourly(self) -> float:
        """The price of one hour of one trial."""
        return self.prices.hourly(self.cpus, self.gpus, self.kind)


@dataclass(frozen=True)
class CellForecast:
    """The forecast of one cell.

    Attributes:
        label: The label of its first trial, without the seed.
        epochs, steps: Per trial.
        seconds: Mean per trial, set-up and evaluation included; None if unknown.
        corpus: The name that the label begins with.
    """

    cell_id: str
    label: str
    trials: tuple[str, ...]
    epochs: int
    steps: int
    seconds: Figure | None
    source: str
    corpus: str = ""


@dataclass(frozen=True)
class Forecast:
    """The forecast of a whole sweep.

    Attributes:
        time: Unix time of the forecast.
        slots: Trials that run at the same time.
        wall_s: Seconds from the launch to the end of the last trial.
        device_hours: GPU-hours, or core-hours if trials use no GPU.
        cost: In the currency of the prices; None without prices.
    """

    sweep: str
    time: float
    device: str
    slots: int
    source: str
    cells: tuple[CellForecast, ...]
    wall_s: Figure | None
    device_hours: Figure | None
    cost: Figure | None
    currency: str = ""

    @property
    def is_known(self) -> bool:
        """Whether there is enough data for a forecast."""
        return self.wall_s is not None

    @property
    def n_trials(self) -> int:
        """Number of trials to run."""
        return sum(len(cell.trials) for cell in self.cells)

    @property
    def longest_trial_s(self) -> float | None:
        """Median seconds of the longest trial; None if unknown."""
        return max((cell.seconds.median for cell in self.cells if cell.seconds), default=None)


def as_json(forecast: Forecast) -> dict[str, Any]:
    """A forecast as JSON values: each figure an object of `low`, `median`, `high` and `source`, or null."""
    return {"format": 1, **asdict(forecast)}
