"""Prometheus metrics of a running sweep: the table of all metrics, and the listener that sets them.

Ray's agent on the driver's node exports them with the prefix `ray_`, and adds labels: SessionName, NodeAddress,
WorkerId (one per driver), Component, Version. It receives updates every ten seconds and when the driver ends. A gauge
disappears twenty seconds after it was last set, while counters remain as long as the node (measured with Ray 2.60), so
rules about the present must use gauges.

Labels are sweeps, states and devices, so their number does not grow with the number of trials.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import trials
from orchestrator.execution.events import Listener
from orchestrator.monitoring.progress import Ending
from trials.cache.set_up_work import SetUpWork
from trials.prefix.rule import prefix_depth
from trials.record import RECORD_COLUMNS, EpochRecord
from trials.spec import TrialSpec
from trials.state import State

RAYS_PREFIX = "ray_"
DISK_EVERY_S = 10.0
FLUSH_BOUNDS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class PrometheusMetric:
    """One of `METRICS`.

    Attributes:
        name: Without Ray's prefix, with its unit; a counter's ends in `_total`.
        labels: In addition to `sweep`.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def exported(self) -> tuple[str, ...]:
        """The names of its series in Prometheus."""
        name = RAYS_PREFIX + self.name
        return tuple(name + part for part in ("_bucket", "_count", "_sum")) if self.kind == "histogram" else (name,)


_COUNTERS = {name: column.counter for name, column in RECORD_COLUMNS.items() if column.counter}
_ALL = (
    PrometheusMetric(
        "permafrost_sweep_info", "gauge", "1 while a driver runs the sweep.", ("store", "cluster", "version")
    ),
    PrometheusMetric("permafrost_trials_planned", "gauge", "Trials that this launch runs."),
    PrometheusMetric("permafrost_trials_skipped", "gauge", "Trials that were complete before this launch."),
    PrometheusMetric("permafrost_trials_running", "gauge", "Trials that are running."),
    PrometheusMetric("permafrost_trials_queued", "gauge", "Trials that wait for their first attempt or a retry."),
    PrometheusMetric("permafrost_trials_total", "counter", "Trials that ended, by final state.", ("state",)),
    PrometheusMetric(
        "permafrost_retries_total", "counter", "Attempts that were followed by another one, by state.", ("state",)
    ),
    PrometheusMetric("permafrost_evaluations_total", "counter", "Evaluations on dev."),
    PrometheusMetric("permafrost_epochs_total", "counter", "Passes over train subsets."),
    PrometheusMetric("permafrost_examples_total", "counter", "Train examples seen, repeats included."),
    *(PrometheusMetric(f"permafrost_{name}", "counter", text) for name, text in _COUNTERS.values()),
    PrometheusMetric(
        "permafrost_prefix_seconds_total", "counter", "Seconds spent computing and opening states of frozen layers."
    ),
    PrometheusMetric(
        "permafrost_prefix_cache_hits_total",
        "counter",
        "Train examples times frozen layers that were not run because their output was cached.",
    ),
    PrometheusMetric(
        "permafrost_prefix_cache_misses_total",
        "counter",
        "Train examples times frozen layers that were run although their output never changes.",
    ),
    PrometheusMetric(
        "permafrost_device_memory_bytes", "gauge", "Peak memory of the trial evaluated last.", ("device",)
    ),
    PrometheusMetric(
        "permafrost_last_progress_timestamp_seconds",
        "gauge",
        "Unix time when a trial last started, was evaluated or ended.",
    ),
    PrometheusMetric("permafrost_store_flush_seconds", "histogram", "Seconds that commits to the store took."),
    PrometheusMetric(
        "permafrost_store_free_bytes", "gauge", "Free bytes of the store's disk, if the store is a folder."
    ),
    PrometheusMetric("permafrost_store_disk_bytes", "gauge", "Total bytes of that disk."),
    PrometheusMetric("permafrost_launches_total", "counter", "Launches that started to run trials."),
    PrometheusMetric(
        "permafrost_launches_ended_total", "counter", "Launches that ended and were not killed.", ("outcome",)
    ),
)
METRICS = {metric.name: metric for metric in _ALL}


class Meters(Protocol):
    """An exporter of metrics; `labels` are the metric's own and `sweep`."""

    def add(self, name: str, amount: float, **labels: str) -> None:
        """Increase a counter; an amount of 0 does nothing."""
        ...

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        ...

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add a value to a histogram."""
        ...


@dataclass(frozen=True)
class MeteredLaunch:
    """The facts about a launch that its metrics show.

    Attributes:
        store: Its address, without secrets.
        disk: A folder on the store's disk; None if the store is not a folder.
    """

    sweep: str
    planned: int
    skipped: int
    store: str
    cluster: str
    disk: Path | None


class MetricsListener(Listener):
    """A `Listener` that sets `METRICS`, from `begin` to `over`."""

    def __init__(
        self, launch: MeteredLaunch, now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._launch, self._now, self._clock = launch, now, clock
        self._meters: Meters | None = None  # only while Ray is running
        self._running: set[str] = set()
        self._ended = 0
        self._reached: dict[str, tuple[float, int]] = {}  # epochs and examples of trials that have not ended
        self._began, self._disk_at = now(), float("-inf")

    def begin(self, meters: Meters) -> None:
        """Export to `meters` from now on."""
        self._meters, launch = meters, self._launch
        self._set("sweep_info", 1, store=launch.store, cluster=launch.cluster, version=trials.__version__)
        self._set("trials_planned", launch.planned)
        self._set("trials_skipped", launch.skipped)
        self._add("launches_total", 1)
        self._moved()
        self.tick()

    def over(self, ending: Ending) -> None:
        """The launch has ended; later calls set nothing."""
        self._add("launches_ended_total", 1, outcome=ending.outcome)
        self._set("trials_running", 0)
        self._set("trials_queued", 0)
        self._meters = None

    def flushed(self, seconds: float) -> None:
        """The recorder has committed rows."""
        if self._meters is not None:
            self._meters.observe("permafrost_store_flush_seconds", seconds, sweep=self._launch.sweep)

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """Count the trial as running."""
        self._running.add(spec.trial_id)
        self._moved()

    def preparing(self, spec: TrialSpec, work: SetUpWork) -> None:
        """Note the progress."""
        self._moved()

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Add what is new: a trial that resumes from a checkpoint yields its records again, which count once.

        Whether a record is of an earlier launch is decided by the worker's clock and this one; a minute between them
        assigns as much work to the wrong launch.
        """
        before = self._reached.get(spec.trial_id, (0.0, 0))
        self._reached[spec.trial_id] = max(before, (record.epoch, record.examples_seen))
        epochs, examples = record.epoch - before[0], record.examples_seen - before[1]
        if epochs > 0 and record.time >= self._began:
            self._count(spec, record, epochs, examples)
        n_bytes = record.worker_memory_bytes if record.peak_memory_bytes is None else record.peak_memory_bytes
        self._set("device_memory_bytes", n_bytes or 0, device=record.device)
        self._moved()

    def _count(self, spec: TrialSpec, record: EpochRecord, epochs: float, examples: int) -> None:
        self._add("evaluations_total", 1)
        self._add("epochs_total", epochs)
        self._add("examples_total", examples)
        for column, (name, _) in _COUNTERS.items():
            self._add(name, getattr(record, column) or 0.0)
        self._add("prefix_seconds_total", record.prefix_s if record.prefix_paid_s is None else record.prefix_paid_s)
        self._add("prefix_cache_hits_total", examples * record.prefix_layers)
        self._add("prefix_cache_misses_total", examples * max(prefix_depth(spec) - record.prefix_layers, 0))

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Count the trial as waiting."""
        self._running.discard(spec.trial_id)
        if state is not State.PRUNED:  # a paused one may be resumed
            self._add("retries_total", 1, state=state.value)
        self._moved()

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Count the trial as ended."""
        self._running.discard(spec.trial_id)
        self._reached.pop(spec.trial_id, None)
        self._ended += 1
        self._add("trials_total", 1, state=state.value)
        self._moved()

    def tick(self) -> None:
        """Measure the free disk space, if the last time is long enough ago."""
        if self._launch.disk is None or self._clock() - self._disk_at < DISK_EVERY_S:
            return
        self._disk_at = self._clock()
        try:
            usage = shutil.disk_usage(self._launch.disk)
        except OSError:  # the recorder reports a store that is gone
            return
        self._set("store_free_bytes", usage.free)
        self._set("store_disk_bytes", usage.total)

    def _moved(self) -> None:
        self._set("trials_running", len(self._running))
        self._set("trials_queued", self._launch.planned - self._ended - len(self._running))
        self._set("last_progress_timestamp_seconds", self._now())

    def _set(self, name: str, value: float, **labels: str) -> None:
        if self._meters is not None:
            self._meters.set(f"permafrost_{name}", value, sweep=self._launch.sweep, **labels)

    def _add(self, name: str, amount: float, **labels: str) -> None:
        if self._meters is not None:
            self._meters.add(f"permafrost_{name}", amount, sweep=self._launch.sweep, **labels)
