"""How often a cell goes wrong: trials that broke, and trials that learned to answer the most frequent label.

The second is what fine-tuning with a bad seed looks like (M. Mosbach, M. Andriushchenko and D. Klakow, "On the
Stability of Fine-tuning BERT", 2021, arXiv 2006.04884): the trial completes, and its accuracy is the share of that
label.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import special

from orchestrator.analysis.rows import Floats, numbers, require

BROKEN = ("diverged", "out_of_memory", "failed")
# Ended by the scheduler, or for reasons that are not the cell's (a machine left, a file was away): no evidence.
NO_EVIDENCE = ("lost", "unavailable", "pruned")
MAJORITY_TOLERANCE = 1e-9  # both are ratios of the same counts; only rounding may part them


def majority_share(tags: pd.DataFrame) -> pd.Series:
    """Share of the most frequent gold label on dev, by trial_id, from token and class rows; NaN without support.

    Raises:
        ValueError: A column is absent, or a trial has a label twice.
    """
    require(tags, ["trial_id", "split", "level", "tag", "support"])
    rows = tags[(tags["split"] == "dev") & tags["level"].isin(["token", "class"])]
    if rows.duplicated(["trial_id", "level", "tag"]).any():
        raise ValueError("a trial has a label twice in its dev rows")
    support = pd.Series(numbers(rows, "support"), name="majority_share").groupby(rows["trial_id"].to_numpy())
    total = support.sum().rename_axis("trial_id")
    return (support.max().rename_axis("trial_id") / total.where(total > 0)).astype(np.float64)


def is_majority(trials: pd.DataFrame, majority: pd.Series, tolerance: float = MAJORITY_TOLERANCE) -> pd.Series:
    """Which trials completed with an accuracy that is the majority share within `tolerance`; index of `trials`.

    Other metrics than accuracy are never judged: their value for one constant answer is another.
    """
    require(trials, ["trial_id", "state", "metric", "score"])
    share = trials["trial_id"].map(majority).to_numpy(dtype=np.float64)
    close = np.abs(numbers(trials, "score") - share) <= tolerance  # NaN is not close
    judged = (trials["state"] == "completed") & (trials["metric"] == "accuracy")
    return judged.astype(bool) & pd.Series(close, trials.index)


def instability(
    trials: pd.DataFrame,
    majority: pd.Series | None = None,
    *,
    tolerance: float = MAJORITY_TOLERANCE,
    level: float = 0.95,
) -> pd.DataFrame:
    """One row a cell, in order of first appearance, also without ended trials.

    Columns: `cell`, `n` (ended trials that are evidence: completed or broken), `broken` (diverged, out of memory,
    failed), `majority` (completed as majority class; 0 without `majority`), `judged` (completed trials whose majority
    share is known and whose metric is accuracy), `excluded` (lost, unavailable, pruned), `share` (of n that broke or
    is majority class), `low`, `high` (Clopper-Pearson at `level`, exact and so on the wide side). NaN without
    evidence.

    Raises:
        ValueError: A column is absent, or a trial has two rows.
    """
    require(trials, ["cell", "trial_id", "state", "metric", "score"])
    if trials["trial_id"].duplicated().any():
        raise ValueError(f"trial {trials.loc[trials['trial_id'].duplicated(), 'trial_id'].iloc[0]} has two rows")
    codes, cells = pd.factorize(trials["cell"])
    known = majority if majority is not None else pd.Series(dtype=np.float64)
    completed = (trials["state"] == "completed").to_numpy(dtype=bool)
    judged = completed & (trials["metric"] == "accuracy").to_numpy(dtype=bool)
    judged &= np.isfinite(trials["trial_id"].map(known).to_numpy(dtype=np.float64))
    broken = trials["state"].isin(BROKEN).to_numpy(dtype=bool)
    flags = {
        "n": completed | broken,
        "broken": broken,
        "majority": is_majority(trials, known, tolerance).to_numpy(dtype=bool),
        "judged": judged,
        "excluded": trials["state"].isin(NO_EVIDENCE).to_numpy(dtype=bool),
    }
    table = pd.DataFrame({"cell": cells}).assign(
        **{name: np.bincount(codes, flag, len(cells)).astype(np.int64) for name, flag in flags.items()}
    )
    bad, n = (numbers(table, "broken") + numbers(table, "majority")), numbers(table, "n")
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
