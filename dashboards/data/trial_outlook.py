"""Forecast of a trial's final score, from its own curve and the completed ones of its objective group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from dashboards.data.frames import Snapshot
from orchestrator.forecast.curve import Outlook, outlook
from orchestrator.forecast.curve_alike import MOST
from orchestrator.forecast.curve_values import Curve
from trials.spec import TrialSpec

_FORECAST = {"running", "missing", "completed"}  # trials in other states will not reach a final score


def trial_outlook(snapshot: Snapshot, row: Mapping[str, Any], epochs: pd.DataFrame) -> Outlook | None:
    """The forecast of a trial; None if it has no score yet, or has failed."""
    curve = next(iter(_curves(epochs)), None)
    if row["state"] not in _FORECAST or curve is None:
        return None
    spec = snapshot.specs[row["cell"]]
    trials = snapshot.sweeps[row["sweep"]].trials
    others = _curves(snapshot.epochs(_complete(snapshot, trials, spec, row)))
    return outlook(curve, spec.optim.epochs, list(others), anneals=spec.optim.schedule == "linear")


def _complete(snapshot: Snapshot, trials: pd.DataFrame, spec: TrialSpec, row: Mapping[str, Any]) -> pd.DataFrame:
    """The newest other completed trials with the same objective group, planned epochs and schedule."""
    done = trials[(trials["state"] == "completed") & (trials["group"] == row["group"])]
    plan = (spec.optim.epochs, spec.optim.schedule)
    plans = {cell: snapshot.specs[cell].optim for cell in done["cell"].unique()}
    alike = [cell for cell, optim in plans.items() if (optim.epochs, optim.schedule) == plan]
    chosen = done[done["cell"].isin(alike) & (done["trial_id"] != row["trial_id"])]
    return chosen.sort_values("time", kind="stable").tail(MOST)


def _curves(epochs: pd.DataFrame) -> Iterator[Curve]:
    """The curve of each trial that has a score."""
    rows = epochs[np.isfinite(epochs["score"]) & (epochs["epoch"] > 0)].drop_duplicates(["trial_id", "epoch"])
    for _, points in rows.groupby("trial_id", sort=False):
        ordered = points.sort_values("epoch")
        yield Curve(tuple(ordered["epoch"].tolist()), tuple(ordered["score"].tolist()))
