"""Which settings no other beats in all objectives at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.rows import Floats, numbers, require, usable
from orchestrator.analysis.savings import COUNTED

_DIGITS = 11  # of a mean: digits beyond are rounding, and means of equal values must stay equal


def front(values: Floats) -> npt.NDArray[np.bool_]:
    """Which points are on the Pareto front.

    Args:
        values: (points, objectives), larger is better; a point with a NaN is never on the front.

    Returns:
        (points,): True where no other point is at least as good in all objectives and better in one. Equal points
        stand or fall together.
    """
    known: npt.NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=1))
    points: Floats = np.where(known[:, None], values, -np.inf)
    at_least = np.all(points[None, :, :] >= points[:, None, :], axis=2)  # (point, other)
    better = np.any(points[None, :, :] > points[:, None, :], axis=2)
    beaten: npt.NDArray[np.bool_] = np.any(at_least & better, axis=1)
    return known & ~beaten


def pareto(frame: pd.DataFrame, cost: str, value: str = "score") -> pd.DataFrame:
    """One row a cell (the baseline too) that has completed trials with both figures, in order of first appearance.

    Columns: `cell`, `n`, `score`, `cost` (means over the trials that have both), `on_front` (no other cell scores at
    least as high at no more cost). Costs compare on one device only, so hand in the rows of one.

    Raises:
        ValueError: A column is absent, the rows belong to several objective groups, or a measured cost to several
            devices, or a cell has two completed trials of one seed.
    """
    rows = _rows(frame, cost, value)
    means = pd.DataFrame({"cell": rows["cell"], "score": numbers(rows, value), "cost": numbers(rows, cost)})
    table = means.groupby("cell", sort=False).agg(n=("score", "size"), score=("score", "mean"), cost=("cost", "mean"))
    points = np.column_stack([_rounded(table["score"].to_numpy()), -_rounded(table["cost"].to_numpy())])
    return table.reset_index().assign(on_front=front(points))


def _rows(frame: pd.DataFrame, cost: str, value: str) -> pd.DataFrame:
    require(frame, ["group", cost])
    rows = usable(frame, value)
    rows = rows[np.isfinite(numbers(rows, cost))]
    if rows["group"].nunique() > 1:
        raise ValueError(f"{rows['group'].nunique()} objective groups: scores compare only inside one")
    if cost not in COUNTED and "device" in rows.columns and rows["device"].nunique(dropna=False) > 1:
        raise ValueError(f"{cost} was measured on {rows['device'].nunique(dropna=False)} devices; choose one")
    return rows


def _rounded(values: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (_DIGITS - np.floor(np.log10(np.abs(values))))
        return np.where(values == 0, 0.0, np.round(values * scale) / scale)
