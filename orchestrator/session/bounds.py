"""Limits of one launch: hours, trials, cost. At a limit, running trials stop after their next evaluation.

The same command resumes the sweep. It counts its limits from zero; earlier launches do not count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orchestrator.config.quantities import HOUR, duration
from orchestrator.execution.stop_request import StopRequest
from orchestrator.forecast.forecast import Forecast
from orchestrator.sweeps.cluster_spec import Prices
from trials.errors import ConfigError
from trials.spec import TrialSpec


@dataclass(frozen=True)
class Bounds:
    """Limits of a launch; None for no limit.

    Attributes:
        hours: Wall time from the start of the launch.
        cost: Cost of the cores and GPUs of its trials, by the prices in the cluster file.
    """

    hours: float | None = None
    trials: int | None = None
    cost: float | None = None

    def check(self, prices: Prices) -> None:
        """Raises ConfigError: A limit is not positive, or a cost has no prices."""
        for name, value in self.given().items():
            if not 0 < value < math.inf:
                raise ConfigError(f"{name} {value:g}: must be {'above 0' if value <= 0 else 'a finite number'}.")
        if self.cost is not None and not (prices.cpu_hour or prices.gpu_hour):
            raise ConfigError(
                f"--max-cost {self.cost:g}: needs prices. Give --cluster a file with "
                "`prices: {cpu_hour: ..., gpu_hour: ...}`."
            )

    def given(self) -> Mapping[str, float]:
        """The limits that are set, by option name."""
        limits = {"--max-hours": self.hours, "--max-trials": self.trials, "--max-cost": self.cost}
        return {name: value for name, value in limits.items() if value is not None}

    def clock(self, began: float) -> Callable[[], float] | None:
        """Seconds left of a launch that began then on the monotonic clock; None without a limit of hours."""
        hours = self.hours
        return None if hours is None else lambda: hours * HOUR - (time.monotonic() - began)

    def settle(self, stop: StopRequest, *, left: int) -> None:
        """Settle why the launch stopped: a limit counts as the reason only if `left` trials did not run."""
        if not left:
            stop.bound = None
        elif not stop.asked and self.trials is not None:
            stop.bound = f"--max-trials {self.trials} reached"


def limit_note(bounds: Bounds, forecast: Forecast, hourly: float) -> str | None:
    """A note if a limit is below the forecast for the longest trial. `hourly` is the price of one trial-hour."""
    if not forecast.seconds:
        return None
    longest = max(forecast.seconds.values())
    if bounds.hours is not None and bounds.hours * HOUR < longest:
        return f"--max-hours {bounds.hours:g} is less than the forecast for the longest trial, {duration(longest)}."
    price = longest / HOUR * hourly
    if bounds.cost is not None and bounds.cost < price:
        return (
            f"--max-cost {bounds.cost:g} is less than the forecast cost of the longest trial, "
            f"{price:.2g} {forecast.currency}."
        )
    return None


class Meter:
    """What a launch has used of its limits: hours since it began, and the cost of its trials."""

    def __init__(
        self, bounds: Bounds, hourly: float, began: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`hourly` is the price of one hour of one trial; `began` the start of the launch on the clock."""
        self._bounds, self._hourly, self._began, self._clock = bounds, hourly, began, clock
        self._running: dict[str, float] = {}
        self._past_s = 0.0

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """Start counting an attempt at the trial."""
        self._running[spec.trial_id] = self._clock()

    def ended(self, spec: TrialSpec) -> None:
        """Stop counting the trial, perhaps until it starts again."""
        self._past_s += self._clock() - self._running.pop(spec.trial_id, self._clock())

    def spent(self) -> float:
        """The cost so far, of running and ended trials."""
        now = self._clock()
        return (self._past_s + sum(now - began for began in self._running.values())) / HOUR * self._hourly

    def reached(self) -> str | None:
        """A phrase for the limit that is reached; None if none is."""
        hours, cost = self._bounds.hours, self._bounds.cost
        if hours is not None and self._clock() - self._began >= hours * HOUR:
            return f"--max-hours {hours:g} reached"
        if cost is not None and (spent := self.spent()) >= cost:
            return f"--max-cost {cost:g} reached with {spent:.4g} spent"
        return None
