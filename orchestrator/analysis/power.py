"""How many seeds a question takes: power of the t test on n pairs, and the least n that reaches a wanted power."""

from __future__ import annotations

import numpy as np
from scipy import special

from orchestrator.analysis.rows import Floats

MOST_SEEDS = 1000  # nobody runs more; beyond it the answer is "never"


def t_power(effect: Floats, n: Floats, alpha: float | Floats, *, sides: int = 2) -> Floats:
    """Chance that a t test on `n` pairs decides, if the true mean is `effect` standard deviations from the null.

    With `sides` 1 only a positive effect counts. Noncentral t, as in statsmodels' `TTestPower`.
    """
    df, shift = n - 1, effect * np.sqrt(n)
    critical = special.stdtrit(df, 1 - np.asarray(alpha) / sides)
    power: Floats = 1 - special.nctdtr(df, shift, critical)
    if sides == 2:
        power = power + special.nctdtr(df, shift, -critical)
    return power


def seeds_needed(
    effect: Floats, alpha: float | Floats, *, power: float = 0.8, sides: int = 2, least: int = 2
) -> Floats:
    """The smallest n, at least `least`, with that power; NaN where `MOST_SEEDS` do not reach it or effect is NaN.

    `effect` (any shape) is in standard deviations of one paired difference; with `sides` 1 a negative one is never
    seen. The chance of deciding for the wrong side, below 1e-5 at such a power, is not counted.
    """
    size, tail = (np.abs(effect) if sides == 2 else effect), np.asarray(alpha) / sides
    low, high = _bracket(size, tail, power, least)
    seen = t_power(size, high, tail, sides=1) >= power
    while (low < high).any():  # bisection on whole numbers: power grows with n
        middle = np.floor((low + high) / 2)
        enough = t_power(size, middle, tail, sides=1) >= power
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    found: Floats = np.where(seen, high, np.nan)
    return found


def _bracket(size: Floats, tail: Floats, power: float, least: int) -> tuple[Floats, Floats]:
    """Whole numbers with the answer between: below it what a known spread would take, and above what t adds.

    t adds about half a squared quantile (W. Guenther, "Sample Size Formulas for Normal Theory T Tests", 1981); the
    upper end allows four times that.
    """
    z = -special.ndtri(tail)
    with np.errstate(divide="ignore", invalid="ignore"):
        known = np.where(size > 0, ((z + special.ndtri(power)) / size) ** 2, np.nan)
    low = np.clip(np.floor(known), least, MOST_SEEDS)
    return low, np.clip(low + 2 * z**2 + 3, least, MOST_SEEDS).round()
