"""How much farther an end lies than Student's if losses are exponential, of skewness 2: the guard is a share of that.

With n such losses the sum S is independent of the sample's shape p (uniform on the simplex), and Student's statistic is
below -c if and only if S <= n / (1 + c sqrt(n) sd(p)): so its chance is a mean of gamma distribution functions over
shapes, of which the table holds the exact distances.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from orchestrator.analysis.rows import Floats

_SEEDS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 60)
_TAILS = (0.05, 0.025, 0.01, 0.005, 0.0025, 0.001, 0.0001)
_RATIOS = np.array([
    (3.33, 3.45, 3.53, 3.56, 3.57, 3.55, 3.47),  # 2
    (2.69, 2.88, 3.08, 3.19, 3.28, 3.38, 3.55),  # 3
    (2.36, 2.54, 2.75, 2.88, 2.99, 3.11, 3.28),  # 4
    (2.15, 2.32, 2.52, 2.66, 2.77, 2.91, 3.17),  # 5
    (2.01, 2.17, 2.35, 2.48, 2.60, 2.74, 3.02),  # 6
    (1.91, 2.05, 2.22, 2.34, 2.45, 2.59, 2.89),  # 7
    (1.82, 1.95, 2.11, 2.23, 2.33, 2.46, 2.74),  # 8
    (1.71, 1.82, 1.96, 2.06, 2.15, 2.27, 2.53),  # 10
    (1.62, 1.72, 1.85, 1.93, 2.02, 2.13, 2.37),  # 12
    (1.53, 1.62, 1.73, 1.80, 1.88, 1.97, 2.19),  # 15
    (1.44, 1.51, 1.60, 1.66, 1.72, 1.80, 1.98),  # 20
    (1.34, 1.39, 1.46, 1.51, 1.55, 1.61, 1.75),  # 30
    (1.22, 1.25, 1.29, 1.33, 1.35, 1.39, 1.48),  # 60
])  # fmt: skip  # distance for exponential losses over Student's, by number of seeds and chance beyond the end


def exponential_ratio(n: Floats, tail: Floats) -> Floats:
    """How much farther an end lies for n exponential losses than Student's, at least 1; tails below 0.0001 as there."""
    z, grid = -special.ndtri(np.clip(tail, _TAILS[-1], _TAILS[0])), -special.ndtri(_TAILS)
    rows = np.stack([np.interp(z, grid, row) for row in _RATIOS])  # (numbers of seeds, ...)
    at = np.interp(np.clip(n, _SEEDS[0], _SEEDS[-1]), _SEEDS, np.arange(len(_SEEDS)))
    below = np.minimum(np.nan_to_num(at).astype(np.intp), len(_SEEDS) - 2)
    low, high = (np.take_along_axis(rows, index[None], axis=0)[0] for index in (below, below + 1))
    ratio = low + (high - low) * (at - below)
    farther: Floats = 1 + (ratio - 1) * np.sqrt(_SEEDS[-1] / np.maximum(n, _SEEDS[-1]))
    return farther
