"""Holm's step-down adjustment of p values, a family at a time.

S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6 (1979), 65-70.
"""

from __future__ import annotations

import numpy as np

from orchestrator.analysis.rows import Codes, Floats


def holm(p: Floats, family: Codes) -> Floats:
    """Adjusted p values; `family` (rows,) codes which p are tested together. NaN stays NaN and counts for nothing."""
    adjusted = np.full(len(p), np.nan)
    rows = np.flatnonzero(np.isfinite(p))
    rows = rows[np.lexsort((p[rows], family[rows]))]
    if not len(rows):
        return adjusted
    starts = np.flatnonzero(np.r_[True, np.diff(family[rows]) != 0])
    sizes = np.diff(np.r_[starts, len(rows)])
    rank = np.arange(len(rows)) - np.repeat(starts, sizes)
    stepped = np.minimum(p[rows] * (np.repeat(sizes, sizes) - rank), 1.0)
    # A running maximum within each family: families lie 2 apart, and no p is above 1.
    shelf = 2.0 * np.repeat(np.arange(len(starts)), sizes)
    adjusted[rows] = np.maximum.accumulate(stepped + shelf) - shelf
    return adjusted
