"""Means of settings, many at once: moments by group, and intervals of the means.

Beside Student's ends stand *logit ends* for means inside 0..1, as scores near 1 are skewed and seeds are few (a
simulation of five beta distributed scores of skewness -1.9 gave a 95 % t-interval 85-90 % coverage): the interval is
made on the logit scale, where the slope 1 / (m (1 - m)) carries the standard error over (delta method), so it is longer
on the side away from the border and never leaves 0..1. Losses have intervals of their own (`two_way`).

What the seeds of a cell look like: count, mean, median, spread, range, and an interval of the mean.

Scores lie in 0..1 and are skewed near 1. By simulation (beta distributed scores of skewness 0 to -1.9, `test_describe`)
a nominal 95 % interval of five values covers the mean in

- 85-94 % of samples by Student's t,
- 79-84 % by the BCa bootstrap,
- 91-95 % by t on logits (and 40-90 % of twenty: it is an interval of another mean),
- 93-96 % by the wider ends of t and the logit delta method, from two values on,

so the interval of a score is the last. That of seconds and other costs is made on the logarithmic scale, so that it
does not reach below zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from orchestrator.analysis.rows import Codes, Floats, is_measured, numbers, refuse_twice, require, without_nan

_EQUAL = 1e-12  # a spread below this share of the largest value is the rounding of equal values


class Moments(NamedTuple):
    """Counts, means and deviations by group, as arrays of one length; NaN if a group has too few values.

    Attributes:
        std: Divides by n - 1; exactly 0 if all values are equal except for rounding.
    """

    n: Floats
    mean: Floats
    std: Floats


def moments(values: Floats, codes: Codes, size: int) -> Moments:
    """Moments of `values` (rows,) by the group that `codes` (rows,) gives, 0..size - 1."""
    n = np.bincount(codes, minlength=size).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(codes, values, size) / n
        deviations = values - mean[codes]
        std = np.sqrt(np.bincount(codes, deviations**2, size) / np.where(n > 1, n - 1, np.nan))
        largest = np.zeros(size)
        np.maximum.at(largest, codes, np.abs(values))
        std = np.where(std <= _EQUAL * largest, 0.0, std)
    return Moments(n, mean, std)


def sample_moments(values: Floats) -> Moments:
    """Moments of one sample (values,), as arrays (1,)."""
    return moments(values, np.zeros(len(values), dtype=np.intp), 1)


def t_ends(m: Moments, level: float) -> tuple[Floats, Floats]:
    """(groups,) ends of Student's interval of each mean; NaN below two values."""
    half = _quantile(m, (1 + level) / 2) * _error(m)
    return m.mean - half, m.mean + half


def logit_ends(m: Moments, level: float) -> tuple[Floats, Floats]:
    """(groups,) ends on the logit scale of means inside 0..1; Student's where a mean is not inside."""
    low, high = t_ends(m, level)
    inside = (m.mean > 0) & (m.mean < 1)
    centre = np.where(inside, m.mean, 0.5)
    half = _quantile(m, (1 + level) / 2) * _error(m) / (centre * (1 - centre))  # delta method: d logit / d mean
    ends = special.expit(special.logit(centre) - half), special.expit(special.logit(centre) + half)
    return np.where(inside, ends[0], low), np.where(inside, ends[1], high)


def log_ends(m: Moments, level: float) -> tuple[Floats, Floats]:
    """(groups,) ends on the logarithmic scale of means above 0 (delta method), never at 0; else Student's."""
    low, high = t_ends(m, level)
    positive = m.mean > 0
    centre = np.where(positive, m.mean, 1.0)
    factor = np.exp(_quantile(m, (1 + level) / 2) * _error(m) / centre)  # delta method: d log / d mean
    return np.where(positive, centre / factor, low), np.where(positive, centre * factor, high)


def hull_of_intervals(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """(groups,) ends of the hull of two intervals."""
    return np.minimum(first[0], second[0]), np.maximum(first[1], second[1])


def _quantile(m: Moments, share: float) -> Floats:
    quantiles: Floats = special.stdtrit(np.where(m.n > 1, m.n - 1, np.nan), share)
    return quantiles


def _error(m: Moments) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        errors: Floats = m.std / np.sqrt(m.n)
    return errors


LEAST_FOR_INTERVAL = 3  # below it a figure draws dots only
_WIDER = "wider of t and logit"
_LOG = "t on the logarithmic scale"


class Summary(NamedTuple):
    """Summary of one sample; `std` divides by n - 1. NaN if there are too few values."""

    n: int
    mean: float
    median: float
    std: float
    min: float
    max: float


def describe(values: Sequence[float] | Floats) -> Summary:
    """Summary of `values` (values,), without those that are NaN."""
    finite_values = without_nan(values)
    if not len(finite_values):
        return Summary(0, np.nan, np.nan, np.nan, np.nan, np.nan)
    m = sample_moments(finite_values)
    return Summary(
        len(finite_values),
        float(m.mean[0]),
        float(np.median(finite_values)),
        float(m.std[0]),
        float(finite_values.min()),
        float(finite_values.max()),
    )


def mean_interval(values: Floats, column: str, level: float = 0.95) -> tuple[float, float]:
    """Ends of the interval of the mean of (values,) of a column of that name, as of `describe_cells`; NaN below two."""
    low, high = _ENDS[_method(column, values)](sample_moments(values), level)
    return float(low[0]), float(high[0])


def describe_cells(frame: pd.DataFrame, by: list[str], value: str, level: float = 0.95) -> pd.DataFrame:
    """One row a group of `by`, in order of first appearance, also where no trial has completed.

    Columns: `by`, then `n` (completed trials with a value), `mean`, `median`, `std` (n - 1), `min`, `max`, `low`,
    `high` (interval of the mean at `level`; NaN below two values), `method` ("t", for scores in 0..1 the wider ends of
    t and logit, for seconds and other costs t on their logarithmic scale), `dots_only` (below three
    values: draw no interval).

    Raises:
        ValueError: A column is absent, or a cell has two completed trials of one seed in one
            group (`by` may hold a tag or a panel, so that a trial has a row in each).
    """
    require(frame, [*by, value])
    groups = frame.groupby(by, sort=False, dropna=False)
    codes, size = groups.ngroup().to_numpy(dtype=np.intp), groups.ngroups
    keep = is_measured(frame, value)
    named = [name for name in dict.fromkeys(["cell", "seed", *by]) if name in frame.columns]
    refuse_twice(frame[named][keep], by)  # without the other columns, which take longer to copy than all else here
    values = numbers(frame, value)[keep]
    m = moments(values, codes[keep], size)
    method = _method(value, values)
    low, high = _ENDS[method](m, level)
    order = pd.Series(values).groupby(codes[keep])  # median and range are no moments
    wide = order.agg(["median", "min", "max"]).reindex(range(size))
    first = np.unique(codes, return_index=True)[1]  # codes are in order of first appearance
    table = frame[by].iloc[first].reset_index(drop=True)
    return table.assign(
        n=m.n.astype(np.int64),
        mean=m.mean,
        median=wide["median"].to_numpy(),
        std=m.std,
        min=wide["min"].to_numpy(),
        max=wide["max"].to_numpy(),
        low=low,
        high=high,
        method=method,
        dots_only=m.n < LEAST_FOR_INTERVAL,
    )


def _method(column: str, values: Floats) -> str:
    """How the interval of a mean is made."""
    scores = _is_score(column) and bool(((values >= 0) & (values <= 1)).all())  # a correlation may be negative
    return _WIDER if scores else _LOG if _is_cost(column, values) else "t"


def _is_score(column: str) -> bool:
    """Whether a column holds a metric: the score that selects, or one by its name as `dev:accuracy`."""
    return column in ("score", "test_score") or column.startswith(("dev:", "test:"))


def _is_cost(column: str, values: Floats) -> bool:
    """Whether a column holds what cannot be negative: by its name, or what stands in place of scores beyond 1."""
    named = column.endswith(("_s", "_j", "_bytes", "_flops", "_params"))
    return bool((values >= 0).all()) and (named or bool(_is_score(column) and (values > 1).any()))


def score_ends(m: Moments, level: float) -> tuple[Floats, Floats]:
    """(groups,) ends of the intervals of mean scores in 0..1: the wider of Student's and of the logit scale's."""
    low, high = hull_of_intervals(t_ends(m, level), logit_ends(m, level))
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


_ENDS = {_WIDER: score_ends, _LOG: log_ends, "t": t_ends}
