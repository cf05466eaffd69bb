"""The forecast of a sweep: of each setting, and of the whole by simulating its trials on the slots.

    expected = forecast(sweep, plan.to_run, history, pilots, hardware, inputs)
    expected.wall_s.median, expected.cells[0].seconds.high

Errors are correlated as in reality: in one draw all trials share the speed of the machine, and all trials of a shape
share the error of the cost model for it; only the rest is independent. So the interval of a sum does not shrink as if
all errors were independent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from orchestrator.analysis.cells import by_cell, freeze_name, grouped
from orchestrator.config.quantities import HOUR, counted
from orchestrator.forecast.cost_model import PREFIX_SD, SETUP_SD, CostModel, fit_model
from orchestrator.forecast.history import PILOT, History, Inputs, Observation, read_history
from orchestrator.forecast.pilot import Pilots
from orchestrator.forecast.values import CellForecast, Figure, Forecast, Hardware
from orchestrator.forecast.work import (
    PrefixLedger,
    cached_here,
    group_key,
    nothing_cached,
    shape_key,
    work_of,
)
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import ClusterSpec, Prices, slots_of
from orchestrator.sweeps.plan import Plan
from trials.spec import TrialSpec, steps_an_epoch

DRAWS, FEWER_DRAWS, MANY_TRIALS = 400, 60, 10_000


def forecast(
    sweep: str,
    to_run: Sequence[TrialSpec],
    history: History,
    pilots: Sequence[Observation],
    hardware: Hardware,
    inputs: Inputs,
) -> Forecast:
    """Forecast the cost of trials; the figures are None without an observation of their device and precision.

    Args:
        to_run: The trials in the order in which they run.
    """
    models = _models([*history.observations, *pilots])
    cells = by_cell(to_run)
    simulated = _Simulation(to_run, models, PILOT if pilots else history.newest_launch, hardware, inputs)
    device = history.target.device or "an unknown device"
    if not simulated.knows_all or not to_run:
        unknown = tuple(_described(specs, None, "") for specs in cells.values())
        return Forecast(sweep, time.time(), device, hardware.slots, "", unknown, None, None, None)
    seconds = simulated.seconds
    source = _source(history, pilots, [simulated.source(spec) for spec in to_run])
    busy = seconds.sum(axis=0) / HOUR
    cost = None if hardware.prices == Prices() else busy * hardware.hourly
    return Forecast(
        sweep=sweep,
        time=time.time(),
        device=device,
        slots=hardware.slots,
        source=source,
        cells=tuple(_cell(specs, simulated) for specs in cells.values()),
        wall_s=Figure.of(hardware.start_s + scheduled_s(seconds + simulated.gaps, hardware.slots), source),
        device_hours=Figure.of(busy * (hardware.gpus or hardware.cpus), source),
        cost=None if cost is None else Figure.of(cost, source),
        currency=hardware.prices.currency,
    )


class _Simulation:
    """Random draws of the cost of each trial."""

    def __init__(
        self,
        specs: Sequence[TrialSpec],
        models: dict[str, CostModel],
        launch: str | None,
        hardware: Hardware,
        inputs: Inputs,
    ) -> None:
        self.knows_all = bool(specs) and all(s.precision in models and inputs.of(s) is not None for s in specs)
        self._models, self._inputs = models, inputs
        self._draws = FEWER_DRAWS if len(specs) > MANY_TRIALS else DRAWS
        self._rng = np.random.default_rng(0)
        self._launch, self._hardware = launch, hardware
        self._shared: dict[tuple[str, str], np.ndarray] = {}
        self.place = {spec.trial_id: i for i, spec in enumerate(specs)}
        shape = (len(specs), self._draws) if self.knows_all else (0, self._draws)
        self.seconds, self.gaps = np.zeros(shape), np.zeros(shape)
        # A GPU has states of its own, which it makes so fast that nobody looks for them here.
        ledger = PrefixLedger(cached_here if hardware.is_here and not hardware.gpus else nothing_cached)
        for i, spec in enumerate(specs if self.knows_all else ()):
            self._fill(i, spec, ledger)

    def _fill(self, i: int, spec: TrialSpec, ledger: PrefixLedger) -> None:
        model, read = self._models[spec.precision], self._inputs.of(spec)
        assert read is not None
        work, prefix = work_of(spec, *read, gpu=self._hardware.gpus > 0), ledger.take(spec, *read)
        factor = self._factor(spec, model) * np.exp(self._rng.normal(0, model.spread.trial, self._draws))
        once = model.setup * self._noise(SETUP_SD) + model.prefix_s(prefix) * self._noise(PREFIX_SD)
        if i < self._hardware.slots:  # the first trial of a slot also loads libraries
            once = once + model.cold
        self.seconds[i] = model.seconds(work) * factor + once
        self.gaps[i] = model.gap_s(work, float(np.median(self.seconds[i])))

    def _noise(self, sd: float) -> np.ndarray:
        return np.asarray(np.exp(self._rng.normal(0, sd, self._draws)))

    def _factor(self, spec: TrialSpec, model: CostModel) -> np.ndarray:
        """(draws,) the factor of the launch, shape and corpus of a trial relative to the cost model."""
        shape, group = shape_key(spec), group_key(spec)
        launch = self._drawn(("launch", spec.precision), *model.spread.of_launch(self._launch))
        own = self._drawn(("shape", shape), *model.spread.of_shape(shape))
        return np.asarray(np.exp(launch + own + self._drawn(("group", group), 0.0, model.unfamiliar(spec))))

    def _drawn(self, key: tuple[str, str], mean: float, sd: float) -> np.ndarray:
        """Draws that are equal for equal keys."""
        if key not in self._shared:
            self._shared[key] = self._rng.normal(mean, sd, self._draws)
        return self._shared[key]

    def source(self, spec: TrialSpec) -> str:
        """What the figures of a trial are estimated from."""
        return self._models[spec.precision].source(spec)


def _models(observations: Sequence[Observation]) -> dict[str, CostModel]:
    """Precision -> its cost model."""
    groups = grouped(observations, lambda observation: observation.spec.precision)
    return {precision: fit_model(group) for precision, group in groups.items()}


def _cell(specs: Sequence[TrialSpec], simulated: _Simulation) -> CellForecast:
    source = simulated.source(specs[0])
    mean = simulated.seconds[[simulated.place[spec.trial_id] for spec in specs]].mean(axis=0)
    return _described(specs, Figure.of(mean, source), source)


def _described(specs: Sequence[TrialSpec], seconds: Figure | None, source: str) -> CellForecast:
    first = specs[0]
    corpus = first.data.name
    label = f"{corpus} {freeze_name(first.freeze.label, first.model.n_layers)} n={first.train_size:,}"
    steps = steps_an_epoch(first) * first.optim.epochs
    ids = tuple(spec.trial_id for spec in specs)
    return CellForecast(first.cell_id, label, ids, first.optim.epochs, steps, seconds, source, corpus)


def _source(history: History, pilots: Sequence[Observation], sources: Sequence[str]) -> str:
    """What the whole is estimated from, and for how many trials by the cost model alone."""
    n = len(history.observations)
    parts = [f"{counted(n, 'trial')} on this device"] if n else []
    if pilots:
        parts.append(f"pilots of {counted(len(pilots), 'shape')}")
    modelled = sum(source == "from the cost model" for source in sources)
    rest = f"; {modelled:,} of {counted(len(sources), 'trial')} by the cost model" if modelled else ""
    return f"from {' and '.join(parts)}{rest}"


def scheduled_s(seconds: np.ndarray, slots: int) -> np.ndarray:
    """(draws,) seconds until the last trial ends, of the `seconds` (trials, draws) of each and so many at a time.

    Each starts on the slot that is free first, in the order of the sweep; Graham (1966) bounds the gain of any other.
    """
    n_trials, n_draws = seconds.shape
    if not n_trials:
        return np.zeros(n_draws)
    free = np.zeros((min(slots, n_trials), n_draws))
    draws = np.arange(n_draws)
    for trial in seconds:
        free[free.argmin(axis=0), draws] += trial
    last: np.ndarray = free.max(axis=0)
    return last


# The forecast of a plan from a store, for the commands `plan` and `launch`.

INLINE_START_S, RAY_START_S = 5.0, 9.0  # defaults: importing torch, and starting Ray, which takes 4 to 11 s
MOST_START_S = 120.0


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
    inputs, resources = Inputs(plan.ahead), plan.sweep.resources
    history = read_history(store, cluster, resources, inputs, time.time())
    timed: list[Observation] = []
    if pilots is not None:
        observed = {observation.shape for observation in history.observations} if history.newest_launch else set[str]()
        timed = pilots.of(plan.ahead, observed, resources.cpus, gpu=history.target.gpus > 0)
    default_start = INLINE_START_S if cluster.address == "inline" else RAY_START_S
    starts = _past_starts(store, history.observations) or [default_start]
    hardware = Hardware(
        slots=slots or slots_of(cluster, resources, history.target.gpus),
        cpus=resources.cpus,
        gpus=history.target.gpus,
        start_s=float(np.median(starts)),
        prices=cluster.prices,
        is_here=cluster.is_here,
        kind=history.target.device or "" if resources.device in ("any", "one") else resources.device,
    )
    return forecast(plan.sweep.name, plan.ahead, history, timed, hardware, inputs)


def _past_starts(store: ResultStore, observations: Sequence[Observation]) -> list[float]:
    """Seconds from each past launch to its first trial."""
    if not observations:
        return []
    starts = []
    for plan in store.sweeps():
        ids = {trial_id for trial_id, _ in plan.trials}
        began = [o.ended - o.seconds for o in observations if o.spec.trial_id in ids and o.ended > plan.time]
        if began and 0 <= min(began) - plan.time < MOST_START_S:
            starts.append(min(began) - plan.time)
    return starts
