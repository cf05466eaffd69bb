"""Means of many cells at once: moments by group, and intervals of their means.

Beside Student's ends stand *logit ends* for means inside 0..1, as scores near 1 are skewed and seeds are few (a
simulation of five beta distributed scores of skewness -1.9 gave a 95 % t-interval 85-90 % coverage): the interval is
made on the logit scale, where the slope 1 / (m (1 - m)) carries the standard error over (delta method), so it is longer
on the side away from the border and never leaves 0..1. Losses have intervals of their own (`two_way`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from orchestrator.analysis.rows import Codes, Floats

_EQUAL = 1e-12  # a spread below this share of the largest value is the rounding of equal values


class Moments(NamedTuple):
    """Of each group, arrays of one length; NaN where a group has too few values.

    Attributes:
        std: With n - 1; exactly 0 where all values are equal but for rounding.
    """

    n: Floats
    mean: Floats
    std: Floats


def moments(values: Floats, codes: Codes, size: int) -> Moments:
    """Moments of `values` (rows,) by the group that `codes` (rows,) gives, 0..size - 1."""
    n = np.bincount(codes, minlength=size).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(codes, values, size) / n
        off = values - mean[codes]
        std = np.sqrt(np.bincount(codes, off**2, size) / np.where(n > 1, n - 1, np.nan))
        largest = np.zeros(size)
        np.maximum.at(largest, codes, np.abs(values))
        std = np.where(std <= _EQUAL * largest, 0.0, std)
    return Moments(n, mean, std)


def sample_moments(values: Floats) -> Moments:
    """Moments of one sample, arrays of length one."""
    return moments(values, np.zeros(len(values), dtype=np.intp), 1)


def t_ends(m: Moments, level: float) -> tuple[Floats, Floats]:
    """Ends of Student's interval of each mean; NaN below two values."""
    half = _quantile(m, (1 + level) / 2) * _error(m)
    return m.mean - half, m.mean + half


def logit_ends(m: Moments, level: float) -> tuple[Floats, Floats]:
    """Ends on the logit scale of means inside 0..1; Student's where a mean is not inside."""
    low, high = t_ends(m, level)
    inside = (m.mean > 0) & (m.mean < 1)
    centre = np.where(inside, m.mean, 0.5)
    half = _quantile(m, (1 + level) / 2) * _error(m) / (centre * (1 - centre))
    ends = special.expit(special.logit(centre) - half), special.expit(special.logit(centre) + half)
    return np.where(inside, ends[0], low), np.where(inside, ends[1], high)


def log_ends(m: Moments, level: float) -> tuple[Floats, Floats]:
    """Ends on the logarithmic scale of means above 0 (delta method), which never reach 0; else Student's."""
    low, high = t_ends(m, level)
    positive = m.mean > 0
    centre = np.where(positive, m.mean, 1.0)
    factor = np.exp(_quantile(m, (1 + level) / 2) * _error(m) / centre)
    return np.where(positive, centre / factor, low), np.where(positive, centre * factor, high)


def wider(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """The hull of two intervals."""
    return np.minimum(first[0], second[0]), np.maximum(first[1], second[1])


def _quantile(m: Moments, share: float) -> Floats:
    found: Floats = special.stdtrit(np.where(m.n > 1, m.n - 1, np.nan), share)
    return found


def _error(m: Moments) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = m.std / np.sqrt(m.n)
    return found
