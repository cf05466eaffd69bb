"""Differences to the baseline: how large, how sure, and whether they are shown."""

from __future__ import annotations

import numpy as np
import pandas as pd

from orchestrator.analysis.losses import Losses, losses, planned_looks
from orchestrator.analysis.rows import Floats
from orchestrator.analysis.simultaneous import simultaneous
from orchestrator.analysis.two_way import ends
from orchestrator.config.quantities import counted

_WORDS = {
    "shown to lose at most the tolerance": "better",
    "shown to lose more": "worse",
    "not decided": "no difference shown",
}


def differences(frame: pd.DataFrame, value: str = "score", level: float = 0.95) -> pd.DataFrame:
    """One row a non-baseline cell, in order of first appearance.

    Columns: `cell`, `baseline`, `group`, `n_pairs`, `n_run`, `unpaired`, `n_sentences` as of `losses.Losses.cells`;
    `mean` (cell minus baseline), `median`, `std` (over seeds), `low`, `high` (of this cell alone at one look, at
    `level`), `low_all`, `high_all` (simultaneous for all cells of one `group`, at every look: those that decide),
    `method` (of the correction), `decided`, `verdict` (words, read off `low_all` and `high_all`). What cannot be
    computed is NaN.

    Raises:
        ValueError: A column is absent, or a cell has two completed trials of one seed.
    """
    of_each = losses(frame, value)
    low, high = ends(of_each.of, (1 - level) / 2)
    low_all, high_all, method, words = _decided(of_each, frame, 1 - level)
    table = of_each.cells.assign(
        mean=-of_each.of.mean,
        median=-of_each.cells["median"],
        std=[each.mean(axis=1).std(ddof=1) if len(each) > 1 else np.nan for each in of_each.values],
        low=-high,
        high=-low,
        low_all=-high_all,
        high_all=-low_all,
        method=method,
        verdict=words,
    )
    table["decided"] = table["verdict"].isin(["better", "worse"])
    return table.drop(columns="n_baseline")


def _decided(of_each: Losses, frame: pd.DataFrame, error: float) -> tuple[Floats, Floats, list[str], list[str]]:
    """Simultaneous ends (cells,) in each group with the method and what they say; infinite ends are NaN."""
    cells, looks = of_each.cells, planned_looks(frame)
    low, high = np.full((2, len(cells)), np.nan)
    method, words = [""] * len(cells), [_without(*row) for row in _counts(of_each)]
    for _, rows in cells.groupby("group", sort=False):
        at = [row for row in rows.index if not words[row]]
        if not at:
            continue
        n_run = cells["n_run"].to_numpy(dtype=np.float64)[at]
        found = simultaneous([of_each.values[row] for row in at], 0.0, error=error, looks=looks, n_run=n_run)
        low[at], high[at] = (np.where(np.isinf(each), np.nan, each) for each in (found.low, found.high))
        for row, verdict in zip(at, found.verdicts, strict=True):
            method[row], words[row] = found.method, _WORDS[verdict]
    return low, high, method, words


def _counts(of_each: Losses) -> list[tuple[int, int, int, float, float]]:
    cells = of_each.cells
    columns = (cells["n_pairs"], cells["n_run"], cells["n_baseline"], of_each.of.mean, of_each.of.variance)
    return list(zip(*(np.asarray(each).tolist() for each in columns), strict=True))


def _without(n: int, n_run: int, n_base: int, mean: float, variance: float) -> str:
    """Why there is no interval; empty where there is one."""
    if not n:
        return "no pairs without a collapse" if n_run else "no pairs" if n_base else "no baseline"
    if n == 1:
        return "one pair: no interval"
    if not variance > 0:
        return "no pair differs" if mean == 0 else f"all {counted(n, 'pair')} differ by the same: no interval"
    return ""
