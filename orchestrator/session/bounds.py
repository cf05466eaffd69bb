"""Limits of one launch: hours, trials. At a limit, running trials stop after their next evaluation.

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
from trials.errors import ConfigError


@dataclass(frozen=True)
class Bounds:
    """Limits of a launch; None for no limit.

    Attributes:
        hours: Wall time from the start of the launch.
    """

    hours: float | None = None
    trials: int | None = None

    def check(self) -> None:
        """Raises ConfigError: A limit is not positive."""
        for name, value in self.given().items():
            if not 0 < value < math.inf:
                raise ConfigError(f"{name} {value:g}: must be {'above 0' if value <= 0 else 'a finite number'}.")

    def given(self) -> Mapping[str, float]:
        """The limits that are set, by option name."""
        limits = {"--max-hours": self.hours, "--max-trials": self.trials}
        return {name: value for name, value in limits.items() if value is not None}

    def clock(self, began: float) -> Callable[[], float] | None:
        """Seconds left of a launch that began then on the monotonic clock; None without a limit of hours."""
        hours = self.hours
        return None if hours is None else lambda: hours * HOUR - (time.monotonic() - began)

    def reached(self, began: float, clock: Callable[[], float] = time.monotonic) -> str | None:
        """A phrase for the limit that a launch which began then on the clock has reached; None if it has not."""
        if self.hours is not None and clock() - began >= self.hours * HOUR:
            return f"--max-hours {self.hours:g} reached"
        return None

    def settle(self, stop: StopRequest, *, left: int) -> None:
        """Settle why the launch stopped: a limit counts as the reason only if `left` trials did not run."""
        if not left:
            stop.bound = None
        elif not stop.asked and self.trials is not None:
            stop.bound = f"--max-trials {self.trials} reached"


def limit_note(bounds: Bounds, forecast: Forecast) -> str | None:
    """A note if a limit is below the forecast for the longest trial."""
    longest = max(forecast.seconds.values(), default=0.0)
    if bounds.hours is not None and bounds.hours * HOUR < longest:
        return f"--max-hours {bounds.hours:g} is less than the forecast for the longest trial, {duration(longest)}."
    return None
