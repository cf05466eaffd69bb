"""What the seeds of a cell look like: count, mean, median, spread, range, and an interval of the mean.

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

from orchestrator.analysis.moments import Moments, log_ends, logit_ends, moments, sample_moments, t_ends, wider
from orchestrator.analysis.rows import Floats, finite, measured, numbers, refuse_twice, require

LEAST_FOR_INTERVAL = 3  # below it a figure draws dots only
_WIDER = "wider of t and logit"
_LOG = "t on the logarithmic scale"


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


def mean_interval(values: Floats, column: str, level: float = 0.95) -> tuple[float, float]:
    """Ends of the interval of a mean, as `describe_cells` has it for a column of that name; NaN below two values."""
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
    keep = measured(frame, value)
    named = [name for name in dict.fromkeys(["cell", "seed", *by]) if name in frame.columns]
    refuse_twice(frame[named][keep], by)  # without the other columns, which take longer to copy than all else here
    found = numbers(frame, value)[keep]
    m = moments(found, codes[keep], size)
    method = _method(value, found)
    low, high = _ENDS[method](m, level)
    order = pd.Series(found).groupby(codes[keep])
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
    """Ends of the interval of means of scores in 0..1: the wider of Student's and of the logit scale's."""
    low, high = wider(t_ends(m, level), logit_ends(m, level))
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


_ENDS = {_WIDER: score_ends, _LOG: log_ends, "t": t_ends}
