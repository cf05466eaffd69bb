"""What a forecast says, as values: where trials run, each cell, and the whole."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.forecast.figure import Figure
from orchestrator.sweeps.cluster_spec import Prices

HOUR = 3_600.0


@dataclass(frozen=True)
class Where:
    """What trials run on.

    Attributes:
        slots: Trials at the same time.
        cpus, gpus: Of a trial.
        start_s: From the launch to its first trial: Ray, and what is imported.
        prices: What an hour costs.
        kind: The kind of GPU as the price list names it, or what the device is called.
        is_here: Whether that is this machine, so that what it keeps of frozen layers need not be computed.
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
        """The price of one trial's cores and GPUs for an hour; of an unknown kind of GPU the highest there is."""
        listed = self.prices.gpu_hour
        if isinstance(listed, dict):
            named = [price for kind, price in listed.items() if kind.lower() in self.kind.lower()]
            of_gpu = max(named or list(listed.values()), default=0.0)
        else:
            of_gpu = listed
        return self.cpus * self.prices.cpu_hour + self.gpus * of_gpu


@dataclass(frozen=True)
class CellForecast:
    """One cell.

    Attributes:
        cell_id: The cell.
        label: Of its first trial, without the seed.
        trials: The ids of those that are to run.
        epochs, steps: Of one trial.
        seconds: Of one trial, set-up and evaluation included; the mean over its trials. None where nothing tells.
        memory_bytes: Its peak.
        source: What both are told from.
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
    """A whole sweep.

    Attributes:
        sweep: Its name.
        time: Unix time at which it was made.
        device: What the trials will run on.
        slots: Trials at the same time.
        source: What the whole is told from.
        cells: Each cell that has something to run.
        wall_s: From the launch to the end of the last trial.
        device_hours: GPU-hours, or core-hours where trials have no GPU.
        energy_j: Of training; None where no energy was counted on the device.
        memory_bytes: The largest peak of a trial.
        disk_bytes: That the store grows by.
        cost: In the currency of the prices; None without prices.
        currency: Of the cost.
    """

    sweep: str
    time: float
    device: str
    slots: int
    source: str
    cells: tuple[CellForecast, ...]
    wall_s: Figure | None
    device_hours: Figure | None
    energy_j: Figure | None
    memory_bytes: Figure | None
    disk_bytes: Figure | None
    cost: Figure | None
    currency: str = ""

    @property
    def is_known(self) -> bool:
        """Whether all cells have a figure."""
        return self.wall_s is not None

    @property
    def n_trials(self) -> int:
        """Trials to run."""
        return sum(len(cell.trials) for cell in self.cells)

    @property
    def longest_trial_s(self) -> float | None:
        """Median seconds of the longest trial."""
        return max((cell.seconds.median for cell in self.cells if cell.seconds), default=None)
