"""How fast trials get where they get: epochs to a share of the best, and the best of n trials."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import special

from orchestrator.analysis.rows import Floats, finite, numbers, require

BIAS_NOTE = (
    "`expected` samples the trials with replacement and is biased low, the more so the nearer the budget is to the "
    "number of trials; `unbiased` samples without replacement and ends at that number."
)
_DIGITS = 6  # of an epoch: evaluations at thirds of an epoch must fall together
_REACHED = 1e-12  # a score this little below its target has reached it: share x best is rounded


def epochs_to(epochs: pd.DataFrame, share: float = 0.95, best: pd.Series | None = None) -> pd.DataFrame:
    """Per trial, the first evaluation whose score reaches `share` of its best, or of `best` (by trial_id).

    Columns: `trial_id`, `cell`, `seed`, `best` (the reference), `target`, `epoch`, `step` (NaN where the target is
    never reached or the reference is unknown or not above 0, of which a share says nothing), `last_epoch`, `reached`.
    One row a trial that has a score, in order of first appearance.

    Raises:
        ValueError: A column is absent, `share` is not in 0..1, or a trial has two evaluations at one step.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share {share:g} must be above 0 and at most 1")
    rows = _evaluations(epochs)
    trials = rows.drop_duplicates("trial_id")[["trial_id", "cell", "seed"]].reset_index(drop=True)
    own = rows.groupby("trial_id")["score"].max()
    reference = trials["trial_id"].map(own if best is None else best).astype(np.float64)
    target = (share * reference).where(reference > 0)
    limits = rows["trial_id"].map(pd.Series(target.to_numpy(), trials["trial_id"])).to_numpy(dtype=np.float64)
    hits = rows[rows["score"].to_numpy() >= limits - _REACHED].sort_values("step", kind="stable")
    first = hits.drop_duplicates("trial_id").set_index("trial_id")
    ids = trials["trial_id"]
    return trials.assign(
        best=reference,
        target=target,
        epoch=ids.map(first["epoch"]).astype(np.float64),
        step=ids.map(first["step"]).astype(np.float64),
        last_epoch=ids.map(rows.groupby("trial_id")["epoch"].max()),
        reached=ids.isin(first.index),
    )


def baseline_best(epochs: pd.DataFrame, trials: pd.DataFrame) -> pd.Series:
    """For each trial the best score of its baseline's trial of the same seed, by trial_id; NaN where there is none.

    Only completed baseline trials count.

    Raises:
        ValueError: A column is absent, or a baseline has two completed trials of one seed.
    """
    require(trials, ["trial_id", "cell", "baseline", "seed", "state"])
    top = _evaluations(epochs).groupby("trial_id")["score"].max()
    done = trials[(trials["cell"] == trials["baseline"]) & (trials["state"] == "completed")]
    if done.duplicated(["cell", "seed"]).any():
        raise ValueError("a baseline has two completed trials of one seed; keep the newest")
    base = done[["cell", "seed"]].assign(best=done["trial_id"].map(top)).rename(columns={"cell": "baseline"})
    both = trials[["trial_id", "baseline", "seed"]].merge(base, on=["baseline", "seed"], how="left")
    return both.set_index("trial_id")["best"].astype(np.float64)


def expected_best(scores: Sequence[float] | Floats, budgets: Sequence[int]) -> pd.DataFrame:
    """The best score to be expected of n trials, for each n of `budgets`; NaN without scores.

    Columns: `budget`, `expected` (maximum of n draws from the empirical distribution: J. Dodge et al., "Show Your
    Work", 2019, arXiv 1909.03004), `unbiased` (n draws without replacement; NaN above the number of
    scores; R. Tang et al., "Showing Your Work Doesn't Always Work", 2020, arXiv 2004.13705). See `BIAS_NOTE`.

    Raises:
        ValueError: A budget is below 1.
    """
    wanted = np.asarray(budgets, dtype=np.float64)
    if (wanted < 1).any():
        raise ValueError("a budget is a number of trials, 1 or more")
    found = np.sort(finite(scores))
    n = len(found)
    if not n:
        return pd.DataFrame({"budget": budgets, "expected": np.nan, "unbiased": np.nan})
    rank = np.arange(1, n + 1)
    chance = (rank / n) ** wanted[:, None] - ((rank - 1) / n) ** wanted[:, None]  # (budgets, scores): which is the best
    expected = chance @ found
    # C(rank - 1, b - 1) / C(n, b): of the sets of b trials, those whose best is the one of that rank.
    b = np.minimum(wanted, n)[:, None]
    with np.errstate(invalid="ignore"):
        logs = _log_choose(np.maximum(rank - 1, b - 1), b - 1) - _log_choose(np.full(rank.shape, n), b)
    unbiased = np.where(rank >= b, np.exp(logs), 0.0) @ found
    return pd.DataFrame({"budget": budgets, "expected": expected, "unbiased": np.where(wanted <= n, unbiased, np.nan)})


def _log_choose(n: Floats, k: Floats) -> Floats:
    found: Floats = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return found


def _evaluations(epochs: pd.DataFrame) -> pd.DataFrame:
    require(epochs, ["trial_id", "cell", "seed", "step", "epoch", "score"])
    rows = epochs[np.isfinite(numbers(epochs, "score"))]
    _refuse_twice(rows, "step")
    return rows


def _refuse_twice(rows: pd.DataFrame, place: str) -> None:
    twice = rows.duplicated(["trial_id", place])
    if twice.any():
        first = rows[twice].iloc[0]
        raise ValueError(f"trial {first['trial_id']} has two evaluations at {place} {first[place]:g}")
