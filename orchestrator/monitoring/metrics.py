"""The numbers of a running sweep for Prometheus: one table of what there is, and the listener that sets them.

Ray's agent on the driver's node exports them with `ray_` before their names, and adds labels: SessionName, NodeAddress,
WorkerId (one a driver), Component, Version. Every ten seconds it hears what is new, and once more when the driver
leaves. Twenty seconds after a gauge was last set it is gone, while counters stay as long as the node (measured with Ray
2.60), so a rule that asks for the present asks gauges.

No label grows with the number of trials: a sweep, a state, a device.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, Protocol

from orchestrator.monitoring.progress import Ending
from orchestrator.store.schema import State
from trials.prefix.rule import prefix_depth
from trials.record import EpochRecord
from trials.spec import TrialSpec

RAYS_PREFIX = "ray_"
DISK_EVERY_S = 10.0
FLUSH_BOUNDS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class PrometheusMetric:
    """One of `METRICS`.

    Attributes:
        name: Ours, with its unit; a counter's ends in `_total`.
        help: What it counts or measures.
        labels: Beside `sweep`.
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


_ALL = (
    PrometheusMetric(
        "permafrost_sweep_info", "gauge", "1 while a driver runs the sweep.", ("store", "cluster", "version")
    ),
    PrometheusMetric("permafrost_trials_planned", "gauge", "Trials that this launch runs."),
    PrometheusMetric("permafrost_trials_skipped", "gauge", "Trials that were complete before this launch."),
    PrometheusMetric("permafrost_trials_running", "gauge", "Trials that a worker has."),
    PrometheusMetric("permafrost_trials_queued", "gauge", "Trials that wait, for the first time or to be tried again."),
    PrometheusMetric(
        "permafrost_trials_total", "counter", "Trials that ended, by the state they ended in.", ("state",)
    ),
    PrometheusMetric(
        "permafrost_retries_total", "counter", "Attempts after which there is another, by why.", ("state",)
    ),
    PrometheusMetric("permafrost_evaluations_total", "counter", "Evaluations on dev."),
    PrometheusMetric("permafrost_epochs_total", "counter", "Passes over train subsets."),
    PrometheusMetric("permafrost_examples_total", "counter", "Train examples seen, repeats included."),
    PrometheusMetric("permafrost_train_seconds_total", "counter", "Seconds that trials were in optimiser steps."),
    PrometheusMetric(
        "permafrost_prefix_seconds_total", "counter", "Seconds of computing and opening states of frozen layers."
    ),
    PrometheusMetric(
        "permafrost_prefix_cache_hits_total",
        "counter",
        "Train examples times frozen layers whose output was kept, so that they were not run.",
    ),
    PrometheusMetric(
        "permafrost_prefix_cache_misses_total",
        "counter",
        "Train examples times frozen layers that were run, though what they give never changes.",
    ),
    PrometheusMetric(
        "permafrost_energy_joules_total", "counter", "Joules of optimiser steps, where the device counts them."
    ),
    PrometheusMetric(
        "permafrost_device_memory_bytes", "gauge", "Peak memory of the trial evaluated last.", ("device",)
    ),
    PrometheusMetric(
        "permafrost_last_progress_timestamp_seconds", "gauge", "Unix time when a trial last started, got on, ended."
    ),
    PrometheusMetric("permafrost_store_flush_seconds", "histogram", "Seconds of committing rows to the store."),
    PrometheusMetric(
        "permafrost_store_free_bytes", "gauge", "Free bytes of the disk that the store lies on, if it is a folder."
    ),
    PrometheusMetric("permafrost_store_disk_bytes", "gauge", "All bytes of that disk."),
    PrometheusMetric("permafrost_launches_total", "counter", "Launches that began to run trials."),
    PrometheusMetric("permafrost_launches_ended_total", "counter", "Launches that ended by themselves.", ("outcome",)),
)
METRICS = {metric.name: metric for metric in _ALL}


class Meters(Protocol):
    """Where numbers go; `labels` are the metric's own and `sweep`."""

    def add(self, name: str, amount: float, **labels: str) -> None:
        """Let a counter grow; an amount of 0 does nothing."""
        ...

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        ...

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Put a value into a histogram."""
        ...


class NoMeters:
    """For a driver without Ray, and outside of its time."""

    def add(self, name: str, amount: float, **labels: str) -> None:
        """Nothing."""

    def set(self, name: str, value: float, **labels: str) -> None:
        """Nothing."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Launch:
    """What the metrics say of a launch as a whole.

    Attributes:
        store: Its address, without secrets.
        disk: A folder on the store's disk; None for a store that is no folder.
    """

    sweep: str
    planned: int
    skipped: int
    store: str
    cluster: str
    disk: Path | None


class MetricsListener:
    """A `Listener` that sets `METRICS`, from `begin` to `over`."""

    def __init__(
        self, launch: Launch, now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._launch, self._now, self._clock = launch, now, clock
        self._meters: Meters = NoMeters()
        self._running: set[str] = set()
        self._ended = 0
        self._reached: dict[str, tuple[float, int]] = {}  # epochs and examples of trials that have not ended
        self._began, self._disk_at = now(), float("-inf")

    def begin(self, meters: Meters) -> None:
        """From now on numbers go there."""
        self._meters, launch = meters, self._launch
        self._set("sweep_info", 1, store=launch.store, cluster=launch.cluster, version=version("permafrost-sweeps"))
        self._set("trials_planned", launch.planned)
        self._set("trials_skipped", launch.skipped)
        self._add("launches_total", 1)
        self._moved()
        self.tick()

    def over(self, ending: Ending) -> None:
        """Nothing runs or waits any more; the next calls set nothing."""
        self._add("launches_ended_total", 1, outcome=ending.outcome)
        self._set("trials_running", 0)
        self._set("trials_queued", 0)
        self._meters = NoMeters()

    def flushed(self, seconds: float) -> None:
        """The recorder has committed rows."""
        self._meters.observe("permafrost_store_flush_seconds", seconds, sweep=self._launch.sweep)

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """It no longer waits."""
        self._running.add(spec.trial_id)
        self._moved()

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Add what is new. A trial that goes on from a checkpoint tells its records again: those count once.

        Of those of an earlier launch the clocks decide, the worker's and this one's; a minute between them moves as
        much of a first trial's work to the one launch or the other.
        """
        before = self._reached.get(spec.trial_id, (0.0, 0))
        self._reached[spec.trial_id] = max(before, (record.epoch, record.examples_seen))
        epochs, examples = record.epoch - before[0], record.examples_seen - before[1]
        if epochs > 0 and record.time >= self._began:
            self._count(spec, record, epochs, examples)
        self._set("device_memory_bytes", record.peak_memory_bytes, device=record.device)
        self._moved()

    def _count(self, spec: TrialSpec, record: EpochRecord, epochs: float, examples: int) -> None:
        self._add("evaluations_total", 1)
        self._add("epochs_total", epochs)
        self._add("examples_total", examples)
        self._add("train_seconds_total", record.train_s)
        self._add("prefix_seconds_total", record.prefix_s)
        self._add("energy_joules_total", record.energy_j or 0.0)
        self._add("prefix_cache_hits_total", examples * record.prefix_layers)
        self._add("prefix_cache_misses_total", examples * max(prefix_depth(spec) - record.prefix_layers, 0))

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """It waits again."""
        self._running.discard(spec.trial_id)
        if state is not State.PRUNED:  # one that is paused may go on
            self._add("retries_total", 1, state=state.value)
        self._moved()

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Count it."""
        self._running.discard(spec.trial_id)
        self._reached.pop(spec.trial_id, None)
        self._ended += 1
        self._add("trials_total", 1, state=state.value)
        self._moved()

    def tick(self) -> None:
        """Look at the disk, if the last time is long enough ago."""
        if self._launch.disk is None or self._clock() - self._disk_at < DISK_EVERY_S:
            return
        self._disk_at = self._clock()
        try:
            usage = shutil.disk_usage(self._launch.disk)
        except OSError:  # the recorder tells of a store that is gone
            return
        self._set("store_free_bytes", usage.free)
        self._set("store_disk_bytes", usage.total)

    def _moved(self) -> None:
        self._set("trials_running", len(self._running))
        self._set("trials_queued", self._launch.planned - self._ended - len(self._running))
        self._set("last_progress_timestamp_seconds", self._now())

    def _set(self, name: str, value: float, **labels: str) -> None:
        self._meters.set(f"permafrost_{name}", value, sweep=self._launch.sweep, **labels)

    def _add(self, name: str, amount: float, **labels: str) -> None:
        self._meters.add(f"permafrost_{name}", amount, sweep=self._launch.sweep, **labels)
