"""A forecast figure: its median, its 80 % interval and its source."""

from __future__ import annotations

from dataclasses import dataclass

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
