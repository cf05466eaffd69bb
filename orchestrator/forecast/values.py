"""The values of a forecast: where trials run, each setting, and the whole sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from orchestrator.forecast.figure import Figure
from orchestrator.sweeps.cluster_spec import Prices
from trials.record import ACCRUED

HOUR = 3_600.0


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
        """The price of one hour of one trial; an unknown kind of GPU has the highest price."""
        listed = self.prices.gpu_hour
        if isinstance(listed, dict):
            named = [price for kind, price in listed.items() if kind.lower() in self.kind.lower()]
            gpu_hour = max(named or list(listed.values()), default=0.0)
        else:
            gpu_hour = listed
        return self.cpus * self.prices.cpu_hour + self.gpus * gpu_hour


@dataclass(frozen=True)
class CellForecast:
    """The forecast of one cell.

    Attributes:
        label: The label of its first trial, without the seed.
        epochs, steps: Per trial.
        seconds: Mean per trial, set-up and evaluation included; None if unknown.
        memory_bytes: Peak memory of one trial; None if unknown.
    """

    cell_id: str
    label: str
    trials: tuple[str, ...]
    epochs: int
    steps: int
    seconds: Figure | None
    memory_bytes: Figure | None
    source: str


@dataclass(frozen=True)
class Forecast:
    """The forecast of a whole sweep.

    Attributes:
        time: Unix time of the forecast.
        slots: Trials that run at the same time.
        wall_s: Seconds from the launch to the end of the last trial.
        device_hours: GPU-hours, or core-hours if trials use no GPU.
        memory_bytes: The largest peak memory of a trial.
        disk_bytes: Growth of the store.
        cost: In the currency of the prices; None without prices.
        accrued: What training takes, by column of `ACCRUED`; None if the device has no counter of it.
    """

    sweep: str
    time: float
    device: str
    slots: int
    source: str
    cells: tuple[CellForecast, ...]
    wall_s: Figure | None
    device_hours: Figure | None
    memory_bytes: Figure | None
    disk_bytes: Figure | None
    cost: Figure | None
    currency: str = ""
    accrued: Mapping[str, Figure | None] = field(default_factory=lambda: dict.fromkeys(ACCRUED))

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
    values = asdict(forecast)
    return {"format": 1, **values.pop("accrued"), **values}
