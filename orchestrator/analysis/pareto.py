"""Which cells no other beats in both score (up) and cost (down), and how sure that is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.rows import Floats, numbers, require, usable
from orchestrator.analysis.savings import with_compute_time

_AT_ONCE = 2_000_000  # resampled means in memory at a time


def front(cost: Floats, score: Floats) -> npt.NDArray[np.bool_]:
    """Which of the last axis are on the Pareto front; equal points stand or fall together, NaN is never on it.

    `cost` and `score` have one shape, (..., cells).
    """
    known = np.isfinite(cost) & np.isfinite(score)
    cost, score = np.where(known, cost, np.inf), np.where(known, score, -np.inf)
    order = np.lexsort((-score, cost), axis=-1)
    c, s = np.take_along_axis(cost, order, -1), np.take_along_axis(score, order, -1)
    best_before = np.roll(np.maximum.accumulate(s, axis=-1), 1, axis=-1)
    best_before[..., :1] = -np.inf
    wins = s > best_before  # dearer by no less than all before, so it must score higher
    same = (c == np.roll(c, 1, axis=-1)) & (s == np.roll(s, 1, axis=-1))
    same[..., :1] = False
    first = np.maximum.accumulate(np.where(same, 0, np.arange(s.shape[-1])), axis=-1)
    on = np.zeros(s.shape, dtype=bool)
    np.put_along_axis(on, order, np.take_along_axis(wins, first, -1), -1)
    found: npt.NDArray[np.bool_] = on & known
    return found


def pareto(
    frame: pd.DataFrame,
    cost: str,
    seed: int | np.random.Generator,
    value: str = "score",
    *,
    resamples: int = 1000,
) -> pd.DataFrame:
    """One row a cell (the baseline too) that has completed trials with both figures, in order of first appearance.

    Columns: `cell`, `n`, `score`, `cost` (means; `train_s` is compute time), `on_front`, `probability` (share of
    bootstrap resamples in which the cell is on the front). Seeds are resampled, all cells together: two cells of one
    seed share its luck. A cell without any trial of the drawn seeds is left out of that draw. Costs compare on one
    device only, so hand in the rows of one.

    Raises:
        ValueError: A column is absent, the rows belong to several objective groups, or a measured cost to several
            devices, or a cell has two completed trials of one seed.
    """
    rows = _rows(frame, cost, value)
    cells, seeds = pd.Index(rows["cell"].unique()), np.sort(rows["seed"].unique())
    place = (np.searchsorted(seeds, rows["seed"].to_numpy()), cells.get_indexer(rows["cell"]))
    there, scores, costs = (np.zeros((len(seeds), len(cells))) for _ in range(3))
    there[place], scores[place], costs[place] = 1.0, numbers(rows, value), numbers(rows, cost)
    n = there.sum(axis=0)
    score, price = scores.sum(axis=0) / n, costs.sum(axis=0) / n
    table = pd.DataFrame({"cell": cells, "n": n.astype(np.int64), "score": score, "cost": price})
    return table.assign(
        on_front=front(price, score),
        probability=_probability(there, scores, costs, np.random.default_rng(seed), resamples),
    )


def _rows(frame: pd.DataFrame, cost: str, value: str) -> pd.DataFrame:
    require(frame, ["group", cost])
    rows = usable(with_compute_time(frame) if cost == "train_s" else frame, value)
    rows = rows[np.isfinite(numbers(rows, cost))]
    if rows["group"].nunique() > 1:
        raise ValueError(f"{rows['group'].nunique()} objective groups: scores compare only inside one")
    if not cost.endswith("_params") and "device" in rows.columns and rows["device"].nunique(dropna=False) > 1:
        raise ValueError(f"{cost} was measured on {rows['device'].nunique(dropna=False)} devices; choose one")
    return rows


def _probability(
    there: Floats, scores: Floats, costs: Floats, rng: np.random.Generator, resamples: int
) -> npt.NDArray[np.float64]:
    """Arrays (seeds, cells), zero where a cell has no trial; gives (cells,)."""
    n_seeds, n_cells = there.shape
    on, drawn = np.zeros(n_cells), np.zeros(n_cells)
    step = max(1, _AT_ONCE // max(n_cells, 1))
    for start in range(0, resamples if n_seeds else 0, step):
        weights = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), min(step, resamples - start))
        n = weights @ there
        with np.errstate(invalid="ignore"):
            score, cost = weights @ scores / n, weights @ costs / n  # NaN: not in this draw
        # A mean of equal costs must stay equal, whatever the order of summation: digits beyond the 12th are rounding.
        on += front(_rounded(cost), _rounded(score)).sum(axis=0)
        drawn += (n > 0).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return on / drawn


def _rounded(values: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (11 - np.floor(np.log10(np.abs(values))))
        return np.where(values == 0, 0.0, np.round(values * scale) / scale)
