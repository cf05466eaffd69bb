"""Which of several set-ups (learning rates, batch sizes, ...) trials are shown and compared in: the best on dev.

A search tries many and nobody wants to read its worst. What selects is the mean dev score, so that the score of the
winner is a little too high; test stays unseen.
"""

from __future__ import annotations

import pandas as pd

from orchestrator.analysis.rows import COMPLETED, require

_FREEZE = ["task", "corpus", "model", "train_size", "freeze"]


def best_setup(trials: pd.DataFrame, value: str = "score") -> str:
    """The set-up of the setting with the highest mean score; the first one if no trial has completed.

    Settings with less than half of the most replicates do not count: a single lucky run would win.
    """
    means = _means(trials, value)
    return str(trials["setup"].iloc[0] if means.empty else means.sort_values("mean", kind="stable")["setup"].iloc[-1])


def each_at_its_best(trials: pd.DataFrame, value: str = "score") -> pd.DataFrame:
    """The trials of every freeze in the set-up that is best for it, each with the baseline at its own best."""
    means = _means(trials, value).sort_values("mean", kind="stable")
    best = means.drop_duplicates(_FREEZE, keep="last")
    of_baseline = best[best["cell"] == best["baseline"]].set_index(_FREEZE[:-1])["cell"]
    kept = trials[trials["cell"].isin(best["cell"])]
    own = of_baseline.reindex(pd.MultiIndex.from_frame(kept[_FREEZE[:-1]])).to_numpy()
    return kept.assign(baseline=pd.Series(own, index=kept.index).fillna(kept["baseline"]))


def _means(trials: pd.DataFrame, value: str) -> pd.DataFrame:
    require(trials, [*_FREEZE, "cell", "baseline", "setup", "state", value])
    done = trials[(trials["state"] == COMPLETED) & trials[value].notna()]
    columns = ["cell", "baseline", "setup", *_FREEZE]
    means = done.groupby("cell", sort=False)[value].agg(["mean", "size"]).reset_index()
    means = means.merge(done[columns].drop_duplicates("cell"), on="cell")
    # A search stops weak set-ups early: one with few replicates may owe its mean to luck.
    return means[means["size"] >= means["size"].max() / 2]
