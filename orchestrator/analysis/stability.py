"""How often a cell goes wrong: trials that broke, and trials that collapsed (`collapse`)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import special

from orchestrator.analysis.rows import Floats, numbers, require

BROKEN = ("diverged", "out_of_memory", "failed")
# Ended by the scheduler, or for reasons that are not the cell's (a machine left, a file was away): no evidence.
NO_EVIDENCE = ("lost", "unavailable", "pruned")


def instability(trials: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """One row a cell, in order of first appearance, also without ended trials.

    Columns: `cell`, `n` (ended trials that are evidence: completed or broken), `broken` (diverged, out of memory,
    failed), `collapsed` (completed ones whose column `collapsed` says so), `judged` (completed trials of which that is
    known), `excluded` (lost, unavailable, pruned), `share` (of n that broke or collapsed), `low`, `high`
    (Clopper-Pearson at `level`, exact and so on the wide side). NaN without evidence.

    Raises:
        ValueError: A column is absent, or a trial has two rows.
    """
    require(trials, ["cell", "trial_id", "state"])
    if trials["trial_id"].duplicated().any():
        raise ValueError(f"trial {trials.loc[trials['trial_id'].duplicated(), 'trial_id'].iloc[0]} has two rows")
    codes, cells = pd.factorize(trials["cell"])
    completed = (trials["state"] == "completed").to_numpy(dtype=bool)
    broken = trials["state"].isin(BROKEN).to_numpy(dtype=bool)
    known = numbers(trials, "collapsed") if "collapsed" in trials.columns else np.full(len(trials), np.nan)
    flags = {
        "n": completed | broken,
        "broken": broken,
        "collapsed": completed & (known == 1),
        "judged": completed & np.isfinite(known),
        "excluded": trials["state"].isin(NO_EVIDENCE).to_numpy(dtype=bool),
    }
    table = pd.DataFrame({"cell": cells}).assign(
        **{name: np.bincount(codes, flag, len(cells)).astype(np.int64) for name, flag in flags.items()}
    )
    bad, n = (numbers(table, "broken") + numbers(table, "collapsed")), numbers(table, "n")
    low, high = clopper_pearson(bad, n, level)
    with np.errstate(invalid="ignore"):
        return table.assign(share=bad / n, low=low, high=high)


def clopper_pearson(k: Floats, n: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
    """Exact interval of a share of k in n; NaN where n is 0.

    C. Clopper and E. Pearson, Biometrika 26 (1934), 404-413.
    """
    tail = (1 - level) / 2
    low = np.where(k > 0, special.betaincinv(np.maximum(k, 1), n - k + 1, tail), 0.0)
    high = np.where(k < n, special.betaincinv(k + 1, np.maximum(n - k, 1), 1 - tail), 1.0)
    return np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan)
