"""How much of the spread of scores goes with which factor: an analysis of variance of main effects.

The interval of a share follows from that of the noncentrality of its F ratio (J. Steiger, "Beyond the F Test",
Psychological Methods 9 (2004), 164-182): a noncentrality L of mean square M is a sum of squares L M beside all others.
Simulated with two factors it covers 92 to 100 %; it is too wide where another factor explains most of the spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from orchestrator.analysis.rows import Floats, is_measured, numbers, refuse_twice, require

_COLUMNS = ["factor", "df", "sum_sq", "eta_sq", "low", "high", "partial_eta_sq", "f", "p", "n"]
_TAIL = 0.025  # beyond each end of an interval
SHARED = "shared"
_LARGEST = 9999.0  # noncentrality that scipy inverts to


@dataclass(frozen=True)
class Anova:
    """An analysis of variance.

    Attributes:
        table: One row a factor, largest share first, then `SHARED` where factors overlap, then "residual": `factor`,
            `df`, `sum_sq` (type II: beyond all other factors), `eta_sq` (share of the total sum of squares; all rows
            add up to 1), `low`, `high` (of its 95 % interval),
            `partial_eta_sq` (of its own and the residual), `f`, `p`, `n` (trials). `low`, `high`, `f` and `p` are NaN
            without a residual, and for the two last rows. `SHARED` is what several factors explain together, which in
            unbalanced sweeps belongs to none; below 0 where they explain more together than each alone.
        dropped: Factors left out, and why in words.
        r_sq: Share of the spread that all factors explain together; NaN without spread.
    """

    table: pd.DataFrame
    dropped: Mapping[str, str]
    n: int
    r_sq: float


def anova(frame: pd.DataFrame, factors: Sequence[str], value: str = "score") -> Anova:
    """Type II analysis of `value` of completed trials by categorical `factors` (a missing level is a level).

    A factor with one level, or whose levels the other factors already fix, is dropped and named; of two that tell the
    same, the later in `factors` goes.

    Raises:
        ValueError: A column is absent, or a cell has two completed trials of one seed.
    """
    require(frame, [*factors, value])
    rows = frame[is_measured(frame, value)]
    refuse_twice(rows)
    scores = numbers(rows, value)
    total = float(((scores - scores.mean()) ** 2).sum()) if len(scores) else 0.0
    dummies, dropped = _separable_dummies(rows, factors)
    if not dummies or total <= 1e-24 * max(1.0, float((scores**2).sum())):
        reason = "all scores are equal" if dummies else ""
        return Anova(pd.DataFrame(columns=_COLUMNS), dropped | dict.fromkeys(dummies, reason), len(rows), float("nan"))
    full = _fit(scores, list(dummies.values()))
    # Type II: a factor gets what it adds to all others, so no order of the factors decides who is credited.
    lines = [_line(name, full, _fit(scores, _without(dummies, name)), total) for name in dummies]
    table = pd.DataFrame(lines).sort_values("sum_sq", ascending=False, kind="stable")
    df_left = full.df
    residual = full.sum_sq if df_left else 0.0
    shared = total - residual - float(table["sum_sq"].sum())  # below 0 where factors suppress each other
    rest = (
        [{"factor": SHARED, "df": 0, "sum_sq": shared, "eta_sq": shared / total}] if abs(shared) > 1e-9 * total else []
    )
    rest += [{"factor": "residual", "df": df_left, "sum_sq": residual, "eta_sq": residual / total}]
    table = pd.concat([table, pd.DataFrame(rest)], ignore_index=True).assign(n=len(rows))
    return Anova(table[_COLUMNS], dropped, len(rows), 1 - residual / total)


def _separable_dummies(rows: pd.DataFrame, factors: Sequence[str]) -> tuple[dict[str, Floats], dict[str, str]]:
    """Dummy columns (rows, levels - 1) of the factors that can be separated, and why the others cannot."""
    dummies: dict[str, Floats] = {}
    dropped: dict[str, str] = {}
    for name in dict.fromkeys(factors):
        codes, levels = pd.factorize(rows[name], use_na_sentinel=False)
        if len(levels) < 2:
            dropped[name] = "one level" if len(levels) else "no completed trial"
        else:
            dummies[name] = (codes[:, None] == np.arange(1, len(levels))).astype(np.float64)
    for name in reversed(list(dummies)):
        if _adds_nothing(len(rows), dummies[name], _without(dummies, name)):
            columns = dummies.pop(name)
            alone = [other for other, theirs in dummies.items() if _adds_nothing(len(rows), columns, [theirs])]
            dropped[name] = f"fixed by {alone[0] if alone else ' and '.join(dummies)}"
    return dummies, dropped


def _without(dummies: Mapping[str, Floats], name: str) -> list[Floats]:
    return [columns for other, columns in dummies.items() if other != name]


def _orthonormal_basis(n: int, parts: Sequence[Floats]) -> Floats:
    """Orthonormal columns (rows, rank) that span the mean and the dummies: overlapping factors leave no column over."""
    columns, sizes, _ = np.linalg.svd(np.hstack([np.ones((n, 1)), *parts]), full_matrices=False)
    # The tolerance of numpy's matrix_rank.
    basis: Floats = columns[:, sizes > sizes.max() * n * np.finfo(np.float64).eps]
    return basis


def _adds_nothing(n: int, columns: Floats, others: Sequence[Floats]) -> bool:
    return len(_orthonormal_basis(n, [*others, columns]).T) == len(_orthonormal_basis(n, others).T)


class _Fit(NamedTuple):
    """What a least squares fit leaves: its sum of squares, and degrees of freedom."""

    sum_sq: float
    df: int


def _fit(scores: Floats, parts: Sequence[Floats]) -> _Fit:
    """The fit of scores (trials,) by the mean and the dummies of each part (trials, levels - 1)."""
    basis = _orthonormal_basis(len(scores), parts)
    residuals = scores - basis @ (basis.T @ scores)
    return _Fit(float(residuals @ residuals), len(scores) - basis.shape[1])


def _line(name: str, full: _Fit, reduced: _Fit, total: float) -> dict[str, Any]:
    """A factor's row; `df` is what it adds to the others: below levels - 1 where it overlaps them."""
    df = reduced.df - full.df
    added = max(0.0, reduced.sum_sq - full.sum_sq)
    residual = full.sum_sq if full.df else 0.0
    line = {"factor": name, "df": df, "sum_sq": added, "eta_sq": min(1.0, added / total)}
    line |= dict.fromkeys(("low", "high", "f", "p"), np.nan)
    line["partial_eta_sq"] = added / (added + residual) if added + residual > 0 else np.nan
    if full.df and residual > 0:
        mean_square = residual / full.df
        f = added / df / mean_square
        low, high = (end * mean_square for end in _noncentrality(f, df, full.df))
        others = total - added
        p = float(special.fdtrc(df, full.df, f))
        line |= {"f": f, "p": p, "low": low / (low + others), "high": high / (high + others)}
    return line


def _noncentrality(f: float, df: int, df_left: int) -> tuple[float, float]:
    """Ends of the 95 % interval of the noncentrality of an F ratio."""
    # Steiger 2004: the noncentralities under which the F ratio seen would be at the tails.
    low = float(special.ncfdtrinc(df, df_left, 1 - _TAIL, f)) if special.fdtr(df, df_left, f) > 1 - _TAIL else 0.0
    high = float(special.ncfdtrinc(df, df_left, _TAIL, f)) if special.fdtr(df, df_left, f) > _TAIL else 0.0
    if max(low, high) < _LARGEST:
        return low, high
    # Of so large a ratio only the residual mean square varies.
    low, high = (df * f * float(special.chdtri(df_left, tail)) / df_left for tail in (1 - _TAIL, _TAIL))
    return low, high
