"""The forecast of a sweep before it runs: a median with its range, from trials of its store or pilots.

    expected = forecast_of(plan, store, cluster, pilots=pilots)
    expected.wall_s.median, expected.line

A trial takes its work in passes through layers (`trials.prefix.work`) times the seconds of a pass: as trials of its
shape took on this device, else between those of other shapes of its corpus and model, else of its model. Where nothing
of a model was timed, no figure is known.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.config.limits import Resources
from orchestrator.config.quantities import HOUR, amount, duration
from orchestrator.forecast.pilot import Pilots, TrialTime, work_passes
from orchestrator.store import ResultStore
from orchestrator.store.plans import stored_spec
from orchestrator.sweeps.cluster_spec import ClusterSpec, gpus_here, slots_of
from orchestrator.sweeps.plan import Plan
from trials.errors import StoreError
from trials.hardware.machine import processor_name
from trials.prefix.work import group_key, shape_key, train_passes
from trials.record import State, paid_prefix_s
from trials.spec import TrialSpec

MOST_ROWS = 1_000  # the newest
INLINE_START_S, RAY_START_S = 5.0, 9.0  # importing torch, and starting Ray, which takes 4 to 11 s
GAP_S = 0.1  # around each trial: commits, checkpoints, scheduling
# Standard deviations of the logarithm of seconds: of a machine's speed between launches, and with that of texts of
# another corpus. A machine that has other work slows all trials together.
LAUNCH_SD, OTHER_CORPUS_SD = 0.2, 0.36
_END = 1.2816  # quantile 0.9 of the standard normal distribution
_COLUMNS = [
    "trial_id", "state", "device", "threads", "gpus", "train_s", "eval_s", "setup_s", "prefix_s", "prefix_paid_s",
    "time", "spec",
]  # fmt: skip


_NOT_PRINTED = ("seconds", "start_s")


@dataclass(frozen=True)
class Figure:
    """A forecast number: its median, and the range in which four of five sweeps should end."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Forecast:
    """The forecast of a whole sweep.

    Attributes:
        time: Unix time of the forecast.
        device: The name of what trials run on.
        slots: Trials that run at the same time.
        n_trials: Trials to run.
        source: What it is estimated from: `from 36 trials on this device`; empty if nothing is known.
        wall_s: Seconds from the launch to the end of the last trial.
        device_hours: GPU-hours, or core-hours if trials use no GPU.
        seconds: Trial id -> median seconds, set-up and evaluation included; empty if unknown.
        start_s: Seconds until the first trial starts.
    """

    sweep: str
    time: float
    device: str
    slots: int
    n_trials: int
    source: str = ""
    wall_s: Figure | None = None
    device_hours: Figure | None = None
    seconds: Mapping[str, float] = field(default_factory=dict, repr=False)
    start_s: float = 0.0

    def wall_of(self, trials: Iterable[TrialSpec]) -> float | None:
        """Median seconds until these alone have ended; those that are not forecast have run. None if unknown."""
        if self.wall_s is None:
            return None
        seconds = [self.seconds[spec.trial_id] + GAP_S for spec in trials if spec.trial_id in self.seconds]
        return self.start_s + scheduled_s(seconds, self.slots) if seconds else 0.0

    @property
    def line(self) -> str:
        """The wall time in one line."""
        if self.wall_s is None:
            return f"forecast unknown until a trial has run on {self.device}; --pilot runs one"
        return f"forecast {_range(self.wall_s, duration)} on {self.device} ({self.source})"

    def parts(self) -> Iterator[RenderableType]:
        """The parts of the forecast that a terminal prints."""
        if not self.n_trials:
            yield Text("nothing to run and nothing to forecast")
        elif self.wall_s is None:
            yield Text(self.line)
        else:
            yield Stack(Text(""), self._table(), Text(f"estimated {self.source}; {self.device}"))

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in ("forecast", "median", "range"):
            table.add_column(name, justify="left" if name == "forecast" else "right", no_wrap=name != "forecast")
        hours = "core-hours" if self.device.startswith("cpu") else "GPU-hours"
        rows: list[tuple[str, Figure | None, Callable[[float], str]]] = [
            (f"wall time, {amount(self.slots, 'slot')}", self.wall_s, duration),
            (hours, self.device_hours, _number),
        ]
        for name, figure, shown in rows:
            if figure is not None:
                table.add_row(name, shown(figure.median), _range(figure, shown))
        return table

    def as_json(self) -> dict[str, Any]:
        """As JSON values: each figure an object of `low`, `median` and `high`, or null."""
        return {"format": 1, **{name: value for name, value in asdict(self).items() if name not in _NOT_PRINTED}}


def forecast_of(
    plan: Plan,
    store: ResultStore,
    cluster: ClusterSpec,
    *,
    pilots: Pilots | None = None,
) -> Forecast:
    """The forecast of the trials that a plan has left to run.

    Args:
        pilots: If given, runs pilots of shapes that no trial of the store has.

    Raises:
        MissingError: A pilot ended early.
        StoreError: The store cannot be read.
    """
    resources = plan.sweep.resources
    table = store.trials(_COLUMNS)
    table = table.filter(pc.equal(table["state"], State.COMPLETED)).sort_by("time")
    rows = table.drop_columns(["spec"]).to_pylist()
    device, gpus = _device(rows, cluster, resources)
    share = {"gpus": gpus} if gpus else {"threads": resources.cpus}
    alike = {"device": device, **share}
    chosen = [i for i, row in enumerate(rows) if row["train_s"] and alike.items() <= row.items()][-MOST_ROWS:]
    timed = [timing for i in chosen if (timing := _timing(rows[i], table["spec"][i].as_py())) is not None]
    source = [f"{amount(len(timed), 'trial')} on this device"] if timed else []
    if pilots is not None:
        seen = {shape_key(timing.spec) for timing in timed}
        if of_pilots := pilots.times(plan.workload, seen, resources.cpus, gpu=gpus > 0):
            source.append(f"pilots of {amount(len(of_pilots), 'shape')}")
            timed += of_pilots
    slots = slots_of(cluster, resources, gpus)
    nothing = Forecast(plan.sweep.name, time.time(), device or "an unknown device", slots, len(plan.workload))
    seconds = {spec.trial_id: expected_s(spec, timed) for spec in plan.workload}
    measured = {trial_id: took for trial_id, took in seconds.items() if took is not None}
    if not measured or len(measured) < len(seconds):
        return nothing
    groups = {group_key(timing.spec) for timing in timed}
    sd = LAUNCH_SD if all(group_key(spec) in groups for spec in plan.workload) else OTHER_CORPUS_SD
    hours = sum(measured.values()) / HOUR
    start_s = INLINE_START_S if cluster.address == "inline" else RAY_START_S
    span = scheduled_s((took + GAP_S for took in measured.values()), slots)
    return Forecast(
        nothing.sweep,
        nothing.time,
        nothing.device,
        slots,
        nothing.n_trials,
        source=f"from {' and '.join(source)}",
        wall_s=_figure(span, sd, at_least=start_s),
        device_hours=_figure(hours * (gpus or resources.cpus), sd),
        seconds=measured,
        start_s=start_s,
    )


def expected_s(spec: TrialSpec, timed: Sequence[TrialTime]) -> float | None:
    """The median seconds of a trial; None if no trial with its model and precision was timed."""
    of_model = [
        timing
        for timing in timed
        if (timing.spec.model.revision, timing.spec.precision) == (spec.model.revision, spec.precision)
    ]
    alike = [timing for timing in of_model if shape_key(timing.spec) == shape_key(spec)]
    alike = alike or [timing for timing in of_model if group_key(timing.spec) == group_key(spec)] or of_model
    if not alike:
        return None
    once_s = float(np.median([timing.once_s for timing in alike]))
    return once_s + work_passes(spec) * _pass_s(train_passes(spec), alike)


def scheduled_s(seconds: Iterable[float], slots: int) -> float:
    """Seconds until the last trial ends, from the seconds of each trial and how many run at a time.

    Each starts on the slot that is free first, in the order of the sweep; Graham (1966) bounds the gain of any other.
    """
    free = [0.0] * slots
    for trial in seconds:
        heapq.heapreplace(free, free[0] + trial)
    return max(free)


def _device(rows: Sequence[Mapping[str, Any]], cluster: ClusterSpec, resources: Resources) -> tuple[str | None, float]:
    """The device that trials will run on, as rows name it (None if unknown), and the GPUs of a trial. On this machine
    it is its CPU or GPU. On a cluster, or for GPU trials planned on a machine without one, it is that of the newest
    trial, whose share of a GPU counts where trials share one.
    """
    n_gpus, here = resources.gpus, ""
    if cluster.is_here:
        here = next((gpu.name for gpu in gpus_here(cluster)), "") if n_gpus else ""
        if n_gpus == 0 or (n_gpus == "auto" and not here):
            return processor_name(), 0.0
    for row in reversed(rows):
        has_gpu = (row["gpus"] or 0) > 0
        if (n_gpus == "auto" or has_gpu == (n_gpus != 0)) and here in ("", row["device"]):
            share = row["gpus"] if isinstance(n_gpus, str) else n_gpus
            return row["device"], float(share or 0.0)
    return here or None, 1.0 if isinstance(n_gpus, str) else n_gpus


def _timing(row: Mapping[str, Any], stored: str) -> TrialTime | None:
    """The time that a completed trial took; None if this version cannot read its spec."""
    try:
        spec = stored_spec(stored, row["trial_id"])
    except StoreError:
        return None
    return TrialTime(spec, work_passes(spec), row["train_s"] + row["eval_s"], row["setup_s"] + paid_prefix_s(row))


def _pass_s(passes: float, timed: Sequence[TrialTime]) -> float:
    """Seconds of one pass in a shape with this many passes per train item.

    Those of an item are linear in passes between the medians of shapes that were timed, in proportion outside of them.
    """
    by_passes = dict[float, list[float]]()
    for timing in timed:
        by_passes.setdefault(train_passes(timing.spec), []).append(timing.seconds / timing.passes)
    xs = sorted(by_passes)
    nearest = min(max(passes, xs[0]), xs[-1])
    return float(np.interp(nearest, xs, [x * float(np.median(by_passes[x])) for x in xs])) / nearest


def _figure(median: float, sd: float, *, at_least: float = 0.0) -> Figure:
    """A median with its range (`sd` is the standard deviation of the logarithm), plus a certain `at_least`."""
    low, high = (at_least + median * math.exp(sign * _END * sd) for sign in (-1, 1))
    return Figure(low, at_least + median, high)


def _range(figure: Figure, shown: Callable[[float], str]) -> str:
    """Both ends; the unit once if it is the same."""
    low, high = shown(figure.low), shown(figure.high)
    number, _, unit = low.partition(" ")
    if low == high:
        return low
    return f"{number} - {high}" if " " not in unit and unit and high.endswith(f" {unit}") else f"{low} - {high}"


def _number(value: float) -> str:
    return f"{value:.3g}"
