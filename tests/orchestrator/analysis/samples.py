"""Published samples, and many samples at once for simulations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from orchestrator.analysis.describe import Moments, moments
from tests.orchestrator.analysis.frames import Floats

Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]  # samples, one a row

# Student, "The Probable Error of a Mean", Biometrika 6 (1908): additional hours of sleep, second drug minus first.
SLEEP = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])


def rows_moments(samples: Floats) -> Moments:
    """Moments of each row of (samples, n)."""
    count, n = samples.shape
    return moments(samples.ravel(), np.repeat(np.arange(count), n), count)


def covered(ends: tuple[Floats, Floats], truth: float) -> float:
    """Share of intervals that hold the truth."""
    return float(((ends[0] <= truth) & (truth <= ends[1])).mean())
