"""How often a cell goes wrong: trials that broke, and trials that collapsed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from orchestrator.analysis.losses import BROKEN, clopper_pearson
from orchestrator.analysis.rows import numbers, require

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
    collapsed = numbers(trials, "collapsed") if "collapsed" in trials.columns else np.full(len(trials), np.nan)
    flags = {
        "n": completed | broken,
        "broken": broken,
        "collapsed": completed & (collapsed == 1),
        "judged": completed & np.isfinite(collapsed),
        "excluded": trials["state"].isin(NO_EVIDENCE).to_numpy(dtype=bool),
    }
    table = pd.DataFrame({"cell": cells}).assign(
        **{name: np.bincount(codes, flag, len(cells)).astype(np.int64) for name, flag in flags.items()}
    )
    bad, n = (numbers(table, "broken") + numbers(table, "collapsed")), numbers(table, "n")
    low, high = clopper_pearson(bad, n, level)  # of few trials, where normal intervals leave 0..1
    with np.errstate(invalid="ignore"):
        return table.assign(share=bad / n, low=low, high=high)
