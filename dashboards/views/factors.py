"""Which settings are unstable."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.kit.cells import setting_columns
from dashboards.views.kit.part import Part
from orchestrator.analysis.losses import instability


class Stability(NamedTuple):
    """How often training fails.

    Attributes:
        table: One row per cell, by train size and depth: `losses.instability`, `freeze`,
            `n_layers`, `train_size`.
    """

    table: pd.DataFrame


def why_stable(info: Stability) -> str:
    """Why there is nothing to show; empty if a trial broke or collapsed."""
    return "" if (info.table[["broken", "collapsed"]].sum(axis=1) > 0).any() else "No trial broke or collapsed."


def prepare_stability(selection: Selection) -> Stability:
    """Over all trials that have ended."""
    trials = selection.trials
    keys = ["cell", "freeze", "n_layers", "train_size", "depth", "strategy", "embeddings"]
    order = ["train_size", "depth", "strategy", "embeddings"]
    table = instability(trials).merge(trials.drop_duplicates("cell")[keys], on="cell").sort_values(order)
    return Stability(table.reset_index(drop=True))


def stability_table(info: Stability) -> pd.DataFrame:
    """One row per cell."""
    t = info.table
    return pd.DataFrame(
        {
            **setting_columns(t),
            "ended": t["n"],
            "broken": t["broken"],
            "collapsed": t["collapsed"].where(t["judged"] > 0).astype("Int64"),
            "unstable (%)": (100 * t["share"]).round(2),
            "95 % from (%)": (100 * t["low"]).round(2),
            "95 % to (%)": (100 * t["high"]).round(2),
            "not counted": t["excluded"],
        }
    )


STABILITY = Part(
    "depth-stability",
    "Failed trainings",
    "How many trials of each setting broke, or collapsed.",
    prepare_stability,
    stability_table,
    why_empty=why_stable,
    if_any=True,
    method="Unstable: trials that diverged, ran out of memory or failed (broken), or completed at or below the "
    "best constant prediction or without a fall of the training loss (collapsed); exact 95 % interval (Clopper and "
    "Pearson). Lost, unavailable and pruned trials are not counted.",
)
