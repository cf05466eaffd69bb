"""The values of a forecast: where trials run, each setting, and the whole sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.config.quantities import counted, duration, energy, size
from orchestrator.sweeps.cluster_spec import Prices
from trials.record import ACCRUED

# A forecast figure: its median, its 80 % interval and its source.

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
        memory_bytes: Peak memory of one trial; None if unknown.
        corpus: The name that the label begins with.
    """

    cell_id: str
    label: str
    trials: tuple[str, ...]
    epochs: int
    steps: int
    seconds: Figure | None
    memory_bytes: Figure | None
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


# A forecast as text: one line, or a page of tables.

MOST_CELLS = 14  # so that everything fits one screen


def _unknown(forecast: Forecast) -> str:
    return (
        f"no forecast: the store has no trial on {forecast.device} in this precision. Add --pilot to time a few dozen "
        "steps."
    )


def forecast_line(forecast: Forecast) -> str:
    """The wall time in one line."""
    if forecast.wall_s is None:
        return _unknown(forecast)
    return f"forecast {_span(forecast.wall_s, duration)} on {forecast.device} ({forecast.wall_s.source})"


def forecast_tables(forecast: Forecast) -> Iterator[RenderableType]:
    """The figures of the whole sweep, then the settings that take most of the time."""
    if not forecast.is_known:
        yield Text(_unknown(forecast) if forecast.n_trials else "nothing to run and nothing to forecast")
        return
    yield Stack(
        Text(""), _whole(forecast), Text(f"estimated {forecast.source}; {forecast.device}"), Text(""), _cells(forecast)
    )
    left = len(forecast.cells) - MOST_CELLS
    if left > 0:
        yield Text(f"and {counted(left, 'setting')} that take less time; --json shows all")


def _whole(forecast: Forecast) -> Table:
    table = _table(["forecast", "median", "80 % interval"], left=("forecast",))
    hours = "core-hours" if forecast.device.startswith("cpu") else "GPU-hours"
    rows = [
        (f"wall time, {counted(forecast.slots, 'slot')}", forecast.wall_s, duration, ""),
        (hours, forecast.device_hours, _number, ""),
        *(
            (c.saved, forecast.accrued[name], energy if name.endswith("_j") else _number, f"no {c.saved} counter")
            for name, c in ACCRUED.items()
        ),
        ("peak memory per trial", forecast.memory_bytes, size, ""),
        ("store grows by", forecast.disk_bytes, size, "empty store"),
        ("cost", forecast.cost, _number, "no prices given"),
    ]
    for name, figure, shown, why_not in rows:
        unit = f" {forecast.currency}" if name == "cost" else ""
        values = ("", why_not) if figure is None else (f"{shown(figure.median)}{unit}", _span(figure, shown))
        table.add_row(name, *values)
    return table


def _cells(forecast: Forecast) -> Table:
    table = _table(
        ["setting", "trials", "epochs", "steps", "per trial", "80 % interval", "from"], left=("setting", "from")
    )
    corpora = {cell.corpus for cell in forecast.cells}
    for cell in sorted(forecast.cells, key=lambda cell: -_all_seconds(cell))[:MOST_CELLS]:
        assert cell.seconds is not None
        label = cell.label if len(corpora) > 1 else cell.label.removeprefix(f"{cell.corpus} ")
        counts = (str(len(cell.trials)), str(cell.epochs), f"{cell.steps:,}")
        source = cell.source.removeprefix("from ").removesuffix(" on this device")
        seconds = (duration(cell.seconds.median), _span(cell.seconds, duration))
        table.add_row(Text(label), *counts, *seconds, _SHORT.get(source.split()[0], source))
    return table


_SHORT = {"a": "pilot", "the": "cost model"}


def _table(names: Sequence[str], *, left: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in names:
        first = name in ("setting", "forecast")
        table.add_column(
            name,
            justify="left" if name in left else "right",
            overflow="fold",
            no_wrap=not first,
            min_width=22 if name == "forecast" else len(name),
        )
    return table


def _all_seconds(cell: CellForecast) -> float:
    return cell.seconds.median * len(cell.trials) if cell.seconds else 0.0


def _span(figure: Figure, shown: Callable[[float], str]) -> str:
    """Both ends; the unit once if it is the same."""
    low, high = shown(figure.low), shown(figure.high)
    number, _, unit = low.partition(" ")
    if low == high:
        return low
    return f"{number} - {high}" if " " not in unit and unit and high.endswith(f" {unit}") else f"{low} - {high}"


def _number(value: float) -> str:
    return f"{value:.3g}"
