"""What the seeds of a cell look like: count, mean, median, spread, range, and an interval of the mean that says its
name.

Scores lie in 0..1 and are skewed near 1. By simulation (beta distributed scores of skewness 0 to -1.9, `test_describe`)
a nominal 95 % interval of five values covers the mean in

- 85-94 % of samples by Student's t,
- 79-84 % by the BCa bootstrap,
- 91-95 % by t on logits (and 40-90 % of twenty: it is an interval of another mean),
- 93-96 % by the wider ends of t and the logit delta method, from two values on.

So `score_interval` is the last, and the others say in their note what they cannot promise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from orchestrator.analysis.moments import Moments, logit_ends, moments, sample_moments, t_ends, wider
from orchestrator.analysis.rows import Floats, finite, measured, number, numbers, refuse_twice, require

SCORES = frozenset({"score", "test_score"})  # in 0..1
LEAST_FOR_INTERVAL = 3  # below it a figure draws dots only
_LEAST_FOR_BCA, _LEAST_FOR_T = 40, 30
_WIDER = "wider of t and logit"


@dataclass(frozen=True)
class Interval:
    """A confidence interval.

    Attributes:
        low, high: Its ends; None where it cannot be given.
        level: What share of such intervals should hold the true value.
        method: How it was made.
        note: Why it cannot be given or trusted; empty where the level holds.
    """

    low: float | None
    high: float | None
    level: float
    method: str
    note: str = ""


class Summary(NamedTuple):
    """Of one sample; `std` divides by n - 1. NaN where there are too few values."""

    n: int
    mean: float
    median: float
    std: float
    min: float
    max: float


def describe(values: Sequence[float] | Floats) -> Summary:
    """Summary of the values that are numbers."""
    found = finite(values)
    if not len(found):
        return Summary(0, np.nan, np.nan, np.nan, np.nan, np.nan)
    m = sample_moments(found)
    return Summary(
        len(found),
        float(m.mean[0]),
        float(np.median(found)),
        float(m.std[0]),
        float(found.min()),
        float(found.max()),
    )


def t_interval(values: Sequence[float] | Floats, level: float = 0.95) -> Interval:
    """Student's interval of the mean; its note warns of skewed scores below 30 values."""
    note = "on strongly skewed values it covers less: of five, 85-94 % instead of 95 %"
    return _from_ends(values, level, "t", t_ends, lambda n: note if n < _LEAST_FOR_T else "")


def score_interval(values: Sequence[float] | Floats, level: float = 0.95) -> Interval:
    """Interval of the mean of scores in 0..1: the wider ends of Student's and of the logit scale's.

    Raises:
        ValueError: A score is not in 0..1.
    """
    _check_scores(finite(values))
    return _from_ends(values, level, _WIDER, _score_ends, lambda n: "")


def bootstrap_interval(
    values: Sequence[float] | Floats,
    seed: int | np.random.Generator,
    statistic: Callable[..., Any] = np.mean,
    level: float = 0.95,
    *,
    resamples: int = 2000,
) -> Interval:
    """BCa bootstrap interval of any statistic that takes `axis`.

    B. Efron, "Better Bootstrap Confidence Intervals", JASA 82 (1987), 171-185. Few values cannot carry it: the note
    says so below 40.
    """
    found = finite(values)
    if len(found) < 2 or not sample_moments(found).std[0]:
        return _degenerate(found, level, "BCa")
    from scipy.stats import DegenerateDataWarning, bootstrap

    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)  # the note below tells
        result = bootstrap((found,), statistic, confidence_level=level, n_resamples=resamples, method="BCa", rng=seed)
    low, high = (float(end) for end in result.confidence_interval)
    if not np.isfinite([low, high]).all():
        return Interval(None, None, level, "BCa", "the statistic hardly changes from resample to resample")
    note = f"the bootstrap of {number(len(found), 'value')} covers less than it says: of five, about 80 %"
    return Interval(low, high, level, "BCa", note if len(found) < _LEAST_FOR_BCA else "")


def describe_cells(frame: pd.DataFrame, by: list[str], value: str, level: float = 0.95) -> pd.DataFrame:
    """One row a group of `by`, in order of first appearance, also where no trial has completed.

    Columns: `by`, then `n` (completed trials with a value), `mean`, `median`, `std` (n - 1), `min`, `max`, `low`,
    `high` (interval of the mean at `level`; NaN below two values), `method` ("t", or for `score` and `test_score` the
    wider ends of t and logit), `dots_only` (below three values: draw no interval).

    Raises:
        ValueError: A column is absent, a score is not in 0..1, or a cell has two completed trials of one seed
            in one group (`by` may hold a tag or a panel, so that a trial has a row in each).
    """
    require(frame, [*by, value])
    groups = frame.groupby(by, sort=False, dropna=False)
    codes, size = groups.ngroup().to_numpy(dtype=np.intp), groups.ngroups
    keep = measured(frame, value)
    refuse_twice(frame[keep], by)
    found = numbers(frame, value)[keep]
    m = moments(found, codes[keep], size)
    scores = value in SCORES
    if scores:
        _check_scores(found)
    low, high = (_score_ends if scores else t_ends)(m, level)
    order = pd.Series(found).groupby(codes[keep])
    wide = order.agg(["median", "min", "max"]).reindex(range(size))
    table = frame.loc[~groups.cumcount().astype(bool), by].reset_index(drop=True)
    return table.assign(
        n=m.n.astype(np.int64),
        mean=m.mean,
        median=wide["median"].to_numpy(),
        std=m.std,
        min=wide["min"].to_numpy(),
        max=wide["max"].to_numpy(),
        low=low,
        high=high,
        method=_WIDER if scores else "t",
        dots_only=m.n < LEAST_FOR_INTERVAL,
    )


def _from_ends(
    values: Sequence[float] | Floats,
    level: float,
    method: str,
    ends: Callable[[Moments, float], tuple[Floats, Floats]],
    note: Callable[[int], str],
) -> Interval:
    found = finite(values)
    m = sample_moments(found)
    if len(found) < 2 or not m.std[0]:
        return _degenerate(found, level, method)
    low, high = ends(m, level)
    return Interval(float(low[0]), float(high[0]), level, method, note(len(found)))


def _degenerate(found: Floats, level: float, method: str) -> Interval:
    """Of no value, one value, or values without any spread, whose interval would be a point."""
    if len(found) < 2:
        return Interval(None, None, level, method, f"{number(len(found), 'value')}: an interval needs two")
    return Interval(None, None, level, method, f"all {len(found)} values are equal: no spread to judge by")


def _score_ends(m: Moments, level: float) -> tuple[Floats, Floats]:
    low, high = wider(t_ends(m, level), logit_ends(m, level))
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def _check_scores(found: Floats) -> None:
    outside = found[(found < 0) | (found > 1)]
    if len(outside):
        raise ValueError(f"score {outside[0]:g} is not in 0..1")
