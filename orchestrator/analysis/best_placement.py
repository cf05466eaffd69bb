"""The best set of layers to freeze at each budget, and what it loses on what its selection did not see.

The set with the smallest measured loss among many is one that was lucky: its own loss is too good. So the loss of
"select at this budget" is estimated by cross-fitting: for each seed and each half of the dev sentences, the set is
selected on the other seeds and the other half, and its loss is read on this seed and half. The interval is over seeds
and sentences, as everywhere (`two_way`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from orchestrator.analysis.losses import losses
from orchestrator.analysis.rows import ROUNDING, Floats
from orchestrator.analysis.savings import savings
from orchestrator.analysis.two_way import interval

_HALVES = 2
LEAST_SEEDS = 2


class _Candidates(NamedTuple):
    """Settings with the same seeds and sentences.

    Attributes:
        cells: One row a setting: `cell`, `saved` (share of the cost).
        values: (settings, seeds, sentences) losses.
    """

    cells: pd.DataFrame
    values: Floats


def best_placements(frame: pd.DataFrame, cost: str) -> pd.DataFrame:
    """One row a budget, for the trials of one baseline, the smallest saving first.

    A budget is a share of the cost that has to be saved at least; every saving that occurs is one. Columns: `saved`
    (the budget), `n_sets` (settings that keep it), `cell` (the one with the smallest loss on all data), `seen` (that
    loss, which is too good), `loss`, `low`, `high` (of what selection did not see, and its 95 % interval; NaN where
    there is none), `agreement` (share of the selections that chose `cell`), `n_seeds`, `n_sentences`.

    Args:
        frame: As of `trial_frame`, with `sentences`.
        cost: As of `savings.savings`.
    """
    of = _candidates(frame, cost)
    rows = []
    if of is not None:
        for saved in sorted(_rounded(of.cells["saved"])):
            keeps = (of.cells["saved"] >= saved - ROUNDING).to_numpy()
            rows.append({"saved": saved, **_best(of.cells[keeps].reset_index(drop=True), of.values[keeps])})
    columns = ["saved", "n_sets", "cell", "seen", "loss", "low", "high", "agreement", "n_seeds", "n_sentences"]
    return pd.DataFrame(rows, columns=columns)


def _rounded(saved: pd.Series) -> set[float]:
    """The savings that differ by more than a thousandth of the cost, each by its smallest value."""
    found: list[float] = []
    for value in sorted(saved):
        if not found or value - found[-1] > 1e-3:
            found.append(float(value))
    return set(found)


def _candidates(frame: pd.DataFrame, cost: str) -> _Candidates | None:
    """The settings that have as many pairs and sentences as the fullest one; None below two seeds."""
    found = losses(frame)
    shares = savings(frame, [cost]).set_index("cell")["saved"]
    shapes = [values.shape for values in found.values]
    full = max(shapes, default=(0, 0))
    at = [n for n, shape in enumerate(shapes) if shape == full and np.isfinite(shares[found.cells["cell"].iloc[n]])]
    if full[0] < LEAST_SEEDS or not at:
        return None
    cells = found.cells.iloc[at][["cell"]].reset_index(drop=True)
    return _Candidates(cells.assign(saved=cells["cell"].map(shares)), np.stack([found.values[n] for n in at]))


def _best(cells: pd.DataFrame, values: Floats) -> dict[str, object]:
    """The selection among settings (settings, seeds, sentences) and what it loses elsewhere."""
    _, n_seeds, n_sentences = values.shape
    best = int(np.argmin(values.mean(axis=(1, 2))))
    unseen, chosen = np.empty((n_seeds, n_sentences)), []
    half = np.arange(n_sentences) % _HALVES if n_sentences > 1 else np.zeros(1, dtype=np.int64)
    for seed in range(n_seeds):
        others = values[:, np.arange(n_seeds) != seed]
        for part in np.unique(half):
            seen = others[:, :, half != part] if n_sentences > 1 else others
            pick = int(np.argmin(seen.mean(axis=(1, 2))))
            unseen[seed, half == part] = values[pick, seed, half == part]
            chosen.append(pick)
    found = interval(unseen)
    return {
        "n_sets": len(cells),
        "cell": cells["cell"].iloc[best],
        "seen": float(values[best].mean()),
        "loss": found.mean,
        "low": np.nan if found.low is None else found.low,
        "high": np.nan if found.high is None else found.high,
        "agreement": float(np.mean(np.array(chosen) == best)),
        "n_seeds": n_seeds,
        "n_sentences": found.n_sentences,
    }
