"""A forecast figure: its median, its 80 % interval and its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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

    def holds(self, value: float) -> bool:
        """Whether a value lies in the interval."""
        return self.low <= value <= self.high


def figure_of(content: dict[str, Any]) -> Figure:
    """A figure from its JSON values. Raises KeyError, TypeError, ValueError: They are not those of a figure."""
    return Figure(float(content["low"]), float(content["median"]), float(content["high"]), str(content["source"]))
