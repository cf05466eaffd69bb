"""The forecast of a sweep before it runs: the seconds of each setting, and the end of all on the slots.

    expected = forecast_of(plan, store, cluster, pilots=pilots)
    expected.wall_s.median, expected.cells[0].seconds.high

Each figure has an 80 % interval. All trials are as slow together at one end of it as they are fast at the other: a
machine that has other work slows all of them.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.analysis.cells import by_cell, grouped
from orchestrator.analysis.freeze_names import freeze_name
from orchestrator.config.quantities import HOUR, counted
from orchestrator.forecast.history import History, Observation, read_history
from orchestrator.forecast.pilot import Pilots
from orchestrator.forecast.trial_cost import COST_MODEL, Expected, TrialCosts
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import ClusterSpec, Prices, slots_of
from orchestrator.sweeps.plan import Plan
from trials.spec import TrialSpec, steps_an_epoch

_ENDS = (-1.2816, 0.0, 1.2816)  # quantiles 0.1, 0.5 and 0.9 of the standard normal distribution
INLINE_START_S, RAY_START_S = 5.0, 9.0  # importing torch, and starting Ray, which takes 4 to 11 s
GAP_S = 0.1  # around each trial: commits, checkpoints, scheduling


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
    def of(cls, values: Callable[[float], float], source: str) -> Figure:
        """From the value at a quantile of the standard normal distribution."""
        low, median, high = map(values, _ENDS)
        return cls(low, median, high, source)


@dataclass(frozen=True)
class Hardware:
    """The hardware that trials run on, and its prices.

    Attributes:
        slots: Trials that run at the same time.
        cpus, gpus: Per trial.
        start_s: Seconds from the launch to its first trial, for Ray and imports.
        kind: The kind of GPU as the price list names it, or the name of the device.
    """

    slots: int
    cpus: int
    gpus: float
    start_s: float
    prices: Prices
    kind: str = ""

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
        seconds: Per trial, set-up and evaluation included; None if unknown.
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


def forecast_of(
    plan: Plan,
    store: ResultStore,
    cluster: ClusterSpec,
    *,
    pilots: Pilots | None = None,
    slots: int | None = None,
) -> Forecast:
    """The forecast of the trials that a plan has left to run.

    Args:
        pilots: If given, runs pilots of shapes without past trials.
        slots: Trials that run at the same time; by default as many as the machine or the cluster file allows.

    Raises:
        MissingError: A pilot ended early.
        StoreError: The store cannot be read.
    """
    resources = plan.sweep.resources
    history = read_history(store, cluster, resources)
    target, timed = history.target, list[Observation]()
    if pilots is not None:
        observed = {observation.shape for observation in history.observations}
        timed = pilots.of(plan.ahead, observed, resources.cpus, gpu=target.gpus > 0)
    hardware = Hardware(
        slots=slots or slots_of(cluster, resources, target.gpus),
        cpus=resources.cpus,
        gpus=target.gpus,
        start_s=INLINE_START_S if cluster.address == "inline" else RAY_START_S,
        prices=cluster.prices,
        kind=target.device or "" if resources.device in ("any", "one") else resources.device,
    )
    return forecast(plan.sweep.name, plan.ahead, history, timed, hardware)


def forecast(
    sweep: str, to_run: Sequence[TrialSpec], history: History, pilots: Sequence[Observation], hardware: Hardware
) -> Forecast:
    """Forecast the cost of trials in the order in which they run.

    The figures are None where one cannot be estimated: nothing of its device and precision was observed.
    """
    observations = grouped([*history.observations, *pilots], lambda observation: observation.spec.precision)
    costs = {precision: TrialCosts(of) for precision, of in observations.items()}
    cells = by_cell(to_run)
    found = {i: costs[of[0].precision].of(of[0]) for i, of in cells.items() if of[0].precision in costs}
    expected = {i: cost for i, cost in found.items() if cost is not None}
    wall = busy = cost = None
    source = ""
    if is_known := bool(cells) and len(expected) == len(cells):
        source = _source(history, pilots, Counter(expected[spec.cell_id].source for spec in to_run))
        each = {z: [_at(z, expected[spec.cell_id]) for spec in to_run] for z in _ENDS}
        wall = Figure.of(lambda z: hardware.start_s + scheduled_s((s + GAP_S for s in each[z]), hardware.slots), source)
        busy = Figure.of(lambda z: sum(each[z]) / HOUR * (hardware.gpus or hardware.cpus), source)
        if hardware.prices != Prices():
            cost = Figure.of(lambda z: sum(each[z]) / HOUR * hardware.hourly, source)
    return Forecast(
        sweep=sweep,
        time=time.time(),
        device=history.target.device or "an unknown device",
        slots=hardware.slots,
        source=source,
        cells=tuple(_cell(i, of, expected[i] if is_known else None) for i, of in cells.items()),
        wall_s=wall,
        device_hours=busy,
        cost=cost,
        currency=hardware.prices.currency if is_known else "",
    )


def _at(z: float, expected: Expected) -> float:
    """The seconds of a trial at a quantile of the standard normal distribution."""
    return expected.seconds * math.exp(z * expected.sd)


def _cell(cell_id: str, specs: Sequence[TrialSpec], expected: Expected | None) -> CellForecast:
    first = specs[0]
    source = expected.source if expected else ""
    return CellForecast(
        cell_id=cell_id,
        label=f"{first.data.name} {freeze_name(first.freeze.label, first.model.n_layers)} n={first.train_size:,}",
        trials=tuple(spec.trial_id for spec in specs),
        epochs=first.optim.epochs,
        steps=steps_an_epoch(first) * first.optim.epochs,
        seconds=Figure.of(lambda z: _at(z, expected), source) if expected else None,
        source=source,
        corpus=first.data.name,
    )


def _source(history: History, pilots: Sequence[Observation], trials: Counter[str]) -> str:
    """What the whole is estimated from, and for how many trials by the cost model alone; `trials` by their source."""
    n = len(history.observations)
    parts = [f"{counted(n, 'trial')} on this device"] if n else []
    if pilots:
        parts.append(f"pilots of {counted(len(pilots), 'shape')}")
    modelled, all_trials = trials[COST_MODEL], counted(trials.total(), "trial")
    rest = f"; {modelled:,} of {all_trials} by the cost model" if modelled else ""
    return f"from {' and '.join(parts)}{rest}"


def scheduled_s(seconds: Iterable[float], slots: int) -> float:
    """Seconds until the last trial ends, of those of each and so many at a time.

    Each starts on the slot that is free first, in the order of the sweep; Graham (1966) bounds the gain of any other.
    """
    free = [0.0] * slots
    for trial in seconds:
        heapq.heapreplace(free, free[0] + trial)
    return max(free)
