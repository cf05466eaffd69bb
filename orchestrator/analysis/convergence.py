"""How fast trials get where they get: epochs to a share of the best score."""

from __future__ import annotations

import numpy as np
import pandas as pd

from orchestrator.analysis.rows import numbers, require

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
    target = (share * reference).where(reference > 0)  # 95 % of a negative correlation would be above it
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
