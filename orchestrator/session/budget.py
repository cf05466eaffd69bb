"""Bounds of one launch: hours, trials, money. At a bound running trials end at their next evaluation and are kept.

The same command goes on, with the bound counted anew; what was spent before is not looked up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from orchestrator.execution.stop_request import StopRequest, polling
from orchestrator.forecast.values import HOUR, Forecast, Where
from orchestrator.store.schema import State
from orchestrator.sweeps.cluster_spec import Prices
from trials.errors import ConfigError
from trials.record import EpochRecord
from trials.spec import TrialSpec

LOOK_S = 0.5


@dataclass(frozen=True)
class Bounds:
    """Where a launch stops; None for no bound.

    Attributes:
        hours: Wall time, from the launch's start.
        trials: Trials that it runs.
        cost: What the time of its trials' cores and GPUs comes to, by the prices of the cluster file.
    """

    hours: float | None = None
    trials: int | None = None
    cost: float | None = None

    def check(self, prices: Prices) -> None:
        """Raises ConfigError: a bound that nothing could pass or that nothing can tell."""
        for name, value in self.given().items():
            if value <= 0:
                raise ConfigError(f"{name} {value:g}: must be above 0.")
        if self.cost is not None and not (prices.cpu_hour or prices.gpu_hour):
            raise ConfigError(
                f"--max-cost {self.cost:g}: without prices nothing is known to cost. Give a cluster file with "
                "`prices: {cpu_hour: ..., gpu_hour: ...}` by --cluster."
            )

    def given(self) -> Mapping[str, float]:
        """The bounds that there are, by their options."""
        found = {"--max-hours": self.hours, "--max-trials": self.trials, "--max-cost": self.cost}
        return {name: value for name, value in found.items() if value is not None}

    def settle(self, stop: StopRequest, *, left: int) -> None:
        """At the end, with so many trials to go: a bound with nothing beyond it held nobody up."""
        if not left:
            stop.bound = None
        elif not stop.asked and self.trials is not None:
            stop.bound = f"the {self.trials} trials of --max-trials have run"

    def words(self) -> list[str]:
        """The options again, for the launch on a cluster."""
        return [word for name, value in self.given().items() for word in (name, f"{value:g}")]


def too_small(bounds: Bounds, found: Forecast, where_hourly: float) -> str | None:
    """What to tell of a bound that not even one trial is likely to fit in."""
    longest = found.longest_trial_s
    if longest is None:
        return None
    if bounds.hours is not None and bounds.hours * HOUR < longest:
        return (
            f"--max-hours {bounds.hours:g} is less than the {longest / HOUR:.2g} h that the longest trial is forecast "
            "to take; what it has done by then is kept, and the same command goes on."
        )
    if bounds.cost is not None and bounds.cost < longest / HOUR * where_hourly:
        price = f"{longest / HOUR * where_hourly:.2g} {found.currency}"
        return (
            f"--max-cost {bounds.cost:g} is less than the {price} that the longest trial is forecast to cost; what it "
            "has done by then is kept, and the same command goes on."
        )
    return None


class Meter:
    """A listener that adds up what the running trials cost."""

    def __init__(self, hourly: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`hourly` is the price of one trial's cores and GPUs."""
        self._hourly, self._clock = hourly, clock
        self._running: dict[str, float] = {}
        self._past_s = 0.0
        self._lock = threading.Lock()

    def spent(self) -> float:
        """So far, of trials that run and that have ended."""
        with self._lock:
            now = self._clock()
            return (self._past_s + sum(now - began for began in self._running.values())) / HOUR * self._hourly

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """It costs from now on."""
        with self._lock:
            self._running[spec.trial_id] = self._clock()

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Nothing changes."""

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Nothing of it costs any more until it starts again."""
        self.ended(spec, state, error)

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """It costs no more."""
        with self._lock:
            self._past_s += self._clock() - self._running.pop(spec.trial_id, self._clock())

    def tick(self) -> None:
        """Nothing changes."""


@contextmanager
def on_bounds(
    bounds: Bounds, meter: Meter, stop: StopRequest, say: Callable[[str], None], *, began: float
) -> Iterator[None]:
    """Ask to stop at a bound while the block runs; `began` is the launch's start on the monotonic clock."""
    if bounds.hours is None and bounds.cost is None:
        yield
        return

    def is_reached() -> bool:
        stop.bound = stop.bound or _reached(bounds, meter, time.monotonic() - began)
        if stop.bound is not None:
            say(f"Stopping, as {stop.bound}: running trials go on to their next evaluation.")
        return stop.bound is not None

    if is_reached():  # before anything runs
        yield
        return
    with polling(is_reached, LOOK_S, "bounds"):
        yield


def _reached(bounds: Bounds, meter: Meter, elapsed_s: float) -> str | None:
    if bounds.hours is not None and elapsed_s >= bounds.hours * HOUR:
        return f"the {bounds.hours:g} hours of --max-hours have passed"
    if bounds.cost is not None and (spent := meter.spent()) >= bounds.cost:
        return f"{spent:.4g} has been spent of --max-cost {bounds.cost:g}"
    return None


def hourly_price(prices: Prices, cpus: int, gpus: float, kind: str) -> float:
    """What a trial costs an hour; of a kind of GPU that the list does not have, the highest price."""
    return Where(1, cpus, gpus, 0.0, prices, kind).hourly
