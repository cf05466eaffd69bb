"""A forecast figure: its median, the interval that holds it four times of five, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

LOW, HIGH = 0.1, 0.9  # the quantiles that an interval of 80 % lies between


@dataclass(frozen=True)
class Figure:
    """A number that is not known yet.

    Attributes:
        low, median, high: Quantiles 0.1, 0.5 and 0.9.
        source: What it is told from: `from 36 trials on this device`.
    """

    low: float
    median: float
    high: float
    source: str

    @classmethod
    def of(cls, draws: np.ndarray, source: str) -> Figure:
        """From a sample of what may come, (draws,)."""
        low, median, high = np.quantile(draws, [LOW, 0.5, HIGH])
        return cls(float(low), float(median), float(high), source)

    def holds(self, value: float) -> bool:
        """Whether a value is inside the interval."""
        return self.low <= value <= self.high


def figure_of(content: dict[str, Any]) -> Figure:
    """A figure read back. Raises KeyError, TypeError, ValueError: it is none."""
    return Figure(float(content["low"]), float(content["median"]), float(content["high"]), str(content["source"]))
